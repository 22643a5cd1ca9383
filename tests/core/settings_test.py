"""Settings: every number and text has a range; and what lengths and grids follow from them."""

import pytest

from cpc_tf.core import cli
from cpc_tf.core.commands import COMMANDS
from cpc_tf.core.settings import ConfigError, RunEnded, all_leaves
from cpc_tf.data.config import GeometryConfig
from cpc_tf.evaluation.inference import encode_dataset
from cpc_tf.training.config import TrainingConfig

LEAVES = {
    (owner, field.name): field
    for command in COMMANDS.values()
    for owner, field in all_leaves(command.config)
}
# every number has a finite range
HUGE = (
    "1e39",
    "1e400",
    "nan",
    "-1" * 2000,
    "9" * 40,
    "-" + "9" * 40,
)


@pytest.mark.parametrize(
    "owner", sorted({owner for owner, _ in LEAVES}, key=lambda owner: owner.__name__)
)
def test_absurd_values_are_refused_by_the_flag(owner):
    for name in [
        name for cls, name in LEAVES if cls is owner and LEAVES[cls, name].type is not bool
    ]:
        field = LEAVES[owner, name]
        kind = field.metadata["listed"] or field.type
        absurd = {int: (*HUGE, str(2**32 + 1)), float: HUGE}
        for value in absurd.get(kind, ("a\nb", "\0", "\x1b[0m", "\udc80", "a" * 5000, " x", "x ")):
            with pytest.raises(ConfigError, match=f"^--{name}=") as error:
                cli.parse(owner, [f"--{name}={value}"])
            assert str(error.value).isprintable()
            assert len(str(error.value)) <= 1000


def test_features_larger_than_memory_are_refused():
    with pytest.raises(ConfigError, match="--cached_views: "):
        encode_dataset([], None, 2**60)


def test_a_message_is_one_short_line():
    text = str(RunEnded("a\nb\0 " + "x" * 500 + " " + "y " * 100_000 + "the end"))
    assert text.startswith("a\\nb\\x00 xxx")
    assert text.endswith("the end")
    assert "500 characters" in text
    assert len(text) <= 1000


def test_the_length_of_a_run_in_steps():
    assert TrainingConfig(train_steps=7).steps(1000) == 7
    # Epochs are rounded up: the last one has every example.
    assert TrainingConfig(train_epochs=2, batch_size=8).steps(20) == 5
    assert TrainingConfig(train_epochs=1.5, batch_size=8).steps(11) == 3


def test_grids():
    assert GeometryConfig(image_size=256, patch_size=64, patch_stride=32).grid == 7
    assert GeometryConfig().grid == 6
