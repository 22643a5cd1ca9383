import pytest

from cpc_tf.encoders.loaded import EncoderName


@pytest.mark.parametrize(
    ("text", "kind", "module", "is_new"),
    [
        ("runs/photos/small/hub", "module", "runs/photos/small/hub", False),
        ("https://tfhub.dev/a/b/1", "module", "https://tfhub.dev/a/b/1", False),
        ("runs/random", "module", "runs/random", False),
        ("random", "random", "", True),
        ("random:gs://bucket/hub", "random:", "gs://bucket/hub", True),
        ("graph:runs/hub", "graph:", "runs/hub", False),
        ("pixels", "pixels", "", True),
    ],
)
def test_each_value_has_one_meaning(text, kind, module, is_new):
    name = EncoderName.parse(text)
    assert (name.kind, name.module, name.is_new) == (kind, module, is_new)
