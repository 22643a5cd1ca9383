"""Settings dataclasses: rules of a field, rules over several fields, flattening."""

import dataclasses

import pytest

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.evaluation.features import encode_dataset
from cpc_tf.settings import ConfigError, RunEnded, Settings, flatten, leaves, setting, unflatten
from cpc_tf.training.config import TrainingConfig
from tests.binaries import OWN_SETTINGS, SETTINGS, settings_of


@dataclasses.dataclass(frozen=True)
class Inner(Settings):
    width: int = setting(4, "how wide", unit="px", minimum=1, maximum=8)
    kind: str = setting("round", "which", choices=("round", "square"))
    share: float = setting(0.5, "how much", above=0, maximum=1)
    rates: str = setting("1", "how fast", listed=float, above=0, maximum=10)


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    name: str = setting("", "what it is called")
    inner: Inner = Inner()


def test_flattening_and_back():
    config = Outer(name="x", inner=Inner(width=6, kind="square"))
    assert flatten(config) == {"name": "x", "width": 6, "kind": "square", "share": 0.5, "rates": "1"}
    assert unflatten(Outer, flatten(config)) == config
    assert unflatten(Outer, {"width": 2}) == Outer(inner=Inner(width=2))
    found = [(owner, field.name) for owner, field in leaves(Outer)]
    assert found[:3] == [(Outer, "name"), (Inner, "width"), (Inner, "kind")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "y"


@pytest.mark.parametrize(("values", "message"), [
    ({"width": 0}, "--width=0: must be at least 1 (default 4)"),
    ({"width": 9}, "--width=9: must be at most 8 (default 4)"),
    ({"share": 0.0}, "--share=0.0: must be above 0 (default 0.5)"),
    ({"kind": "flat"}, "--kind=flat: must be one of round, square (default round)"),
    ({"rates": "1,0"}, "--rates=1,0: must be numbers with commas between them, each above 0 (default 1)"),
])  # fmt: skip
def test_every_kind_of_rule_bites(values, message):
    Outer(inner=Inner(width=8, share=1.0, kind="square", rates="1,2"))
    with pytest.raises(ConfigError) as error:
        Inner(**values)
    assert str(error.value) == message


LEAVES = {
    (owner, field.name): field for name in (*SETTINGS, *OWN_SETTINGS) for owner, field in leaves(settings_of(name))
}
HUGE = ("1e39", "1e400", "nan", "-1" * 2000, "9" * 40, "-" + "9" * 40)  # every number has a finite range


@pytest.mark.parametrize("owner", sorted({owner for owner, _ in LEAVES}, key=lambda owner: owner.__name__))
def test_absurd_values_are_refused_by_the_flag(owner):
    """Settings that are not flags too, as a run's own file of flags may have them."""
    for name in [name for cls, name in LEAVES if cls is owner and LEAVES[cls, name].type is not bool]:
        field = LEAVES[owner, name]
        kind = field.metadata["listed"] or field.type
        absurd = {int: (*HUGE, str(2**32 + 1)), float: HUGE}
        for value in absurd.get(kind, ("a\nb", "\0", "\x1b[0m", "\udc80", "a" * 5000, " x", "x ")):
            with pytest.raises(ConfigError, match=f"^--{name}=") as error:
                cli.parse(owner, [f"--{name}={value}"], recorded=not field.metadata["flag"])
            assert str(error.value).isprintable()
            assert len(str(error.value)) <= 1000


def test_features_that_do_not_fit_into_memory_are_refused():
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
