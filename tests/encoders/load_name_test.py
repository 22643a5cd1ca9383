import pytest

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import EncoderName
from cpc_tf.settings import ConfigError
from tests.modules import write_card


@pytest.mark.parametrize(
    ("text", "kind", "module", "is_new"),
    [
        ("runs/photos/hub", "module", "runs/photos/hub", False),
        ("https://tfhub.dev/a/b/1", "module", "https://tfhub.dev/a/b/1", False),
        ("runs/random", "module", "runs/random", False),
        ("random", "random", "", True),
        ("random:gs://bucket/hub", "random:", "gs://bucket/hub", True),
        ("network:runs/hub", "network:", "runs/hub", False),
        ("pixels", "pixels", "", True),
    ],
)
def test_each_value_has_one_meaning(text, kind, module, is_new):
    name = EncoderName.parse(text)
    assert (name.kind, name.module, name.is_new) == (kind, module, is_new)


@pytest.mark.parametrize("text", ["", "random:", "network:"])
def test_an_empty_name_says_what_to_write(text):
    with pytest.raises(ConfigError, match=f"--encoder={text} is empty: .* e.g. --encoder={text}runs/photos/hub"):
        EncoderName.parse(text)


def test_settings_of_a_network(tmp_path):
    settings = EncoderConfig(encoder="tiny", norm="channel", output_stack=2)
    write_card(tmp_path, settings)
    assert EncoderName.parse(f"random:{tmp_path}").settings("small") == settings
    assert EncoderName.parse("random").settings("small") == EncoderConfig(encoder="small")
    # Supervised ResNets are made for batch norm.
    assert EncoderName.parse("pixels").settings("small") == EncoderConfig(encoder="small", norm="batch")
