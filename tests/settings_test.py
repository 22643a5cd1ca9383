"""Settings dataclasses: rules of a field, rules over several fields, flattening."""

import dataclasses
import re

import pytest

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.evaluation.features import encode_dataset
from cpc_tf.export.run import ExportConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.objectives.cpc import CPCConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, RunEnded, Settings, flatten, leaves, setting, unflatten
from cpc_tf.training.config import TrainingConfig
from tests.binaries import OWN_SETTINGS, SETTINGS, settings_of

CONFIGS = [PretrainConfig, LinearConfig, EfficientConfig, DetectConfig, ExportConfig]


@dataclasses.dataclass(frozen=True)
class Inner(Settings):
    width: int = setting(4, "how wide", unit="px", minimum=1, maximum=8)
    kind: str = setting("round", "which", choices=("round", "square"))


@dataclasses.dataclass(frozen=True)
class Outer(Settings):
    name: str = setting("", "what it is called")
    inner: Inner = Inner()


def test_flattening_and_back():
    config = Outer(name="x", inner=Inner(width=6, kind="square"))
    assert flatten(config) == {"name": "x", "width": 6, "kind": "square"}
    assert unflatten(Outer, flatten(config)) == config
    assert unflatten(Outer, {"width": 2}) == Outer(inner=Inner(width=2))
    found = [(owner, field.name) for owner, field in leaves(Outer)]
    assert found == [(Outer, "name"), (Inner, "width"), (Inner, "kind")]
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.name = "y"


LEAVES = {
    (owner, field.name): field for name in (*SETTINGS, *OWN_SETTINGS) for owner, field in leaves(settings_of(name))
}
HUGE = ("1e39", "1e400", "nan", "-1" * 2000, "9" * 40)


def test_every_number_has_a_range():
    """Both ends are finite, whether the setting is a flag or not."""
    numbers = {key: field for key, field in LEAVES.items() if field.type in (int, float) or field.metadata["listed"]}
    assert len(numbers) > 80
    for (owner, name), field in numbers.items():
        rules, where = field.metadata, f"{owner.__name__}.{name}"
        if rules["choices"]:
            continue
        assert rules["minimum"] is not None or rules["above"] is not None, f"{where} has no least value"
        whole = int in (field.type, rules["listed"])
        assert rules["maximum"] is not None, f"{where} has no largest value"
        assert rules["maximum"] <= (2**32 if whole else 1e38), f"{where}: what is that large?"


@pytest.mark.parametrize("owner", sorted({owner for owner, _ in LEAVES}, key=lambda owner: owner.__name__))
def test_absurd_values_are_refused_by_the_flag(owner):
    for name in [name for cls, name in LEAVES if cls is owner and LEAVES[cls, name].type is not bool]:
        field = LEAVES[owner, name]
        numbers = field.type in (int, float) or field.metadata["listed"]
        for value in HUGE if numbers else ("a\nb", "\0", "\x1b[0m", "\udc80", "a" * 5000, " x", "x "):
            with pytest.raises(ConfigError, match=f"^--{name}=") as error:
                cli.parse(owner, [f"--{name}={value}"])
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


@pytest.mark.parametrize("config_class", CONFIGS)
def test_every_flag_has_one_owner_and_a_help_that_stands_alone(config_class):
    """--help is sorted by name, so a text must not lean on its neighbours."""
    fields = [field for _, field in leaves(config_class)]
    names = [field.name for field in fields]
    assert len(names) == len(set(names)), "two settings share a flag"
    assert sum(field.metadata["flag"] for field in fields) <= 52
    for field in fields:
        rules = field.metadata
        assert field.type in (bool, int, float, str), field.name
        assert isinstance(field.default, (int, float) if field.type is float else field.type), field.name
        assert not rules["choices"] or field.default in rules["choices"], field.name
        assert rules["help"], field.name
        if rules["flag"]:
            assert rules["help"][0].isupper(), field.name
            assert rules["help"].lower().split()[0] not in ("the", "of", "and", "their", "its", "alike"), field.name


@pytest.mark.parametrize("owner", sorted({owner for c in CONFIGS for owner, _ in leaves(c)}, key=lambda c: c.__name__))
def test_every_rule_of_every_setting_bites(owner):
    """A value just outside of each bound is refused by the name of its flag; each choice is taken."""
    for field in [field for cls, field in leaves(owner) if cls is owner]:
        rules = field.metadata
        outside = [rules["above"]] if rules["above"] is not None else []
        outside += [rules["minimum"] - 1] if rules["minimum"] is not None else []
        outside += [rules["maximum"] * 2] if rules["maximum"] is not None else []
        outside += [field.type("7")] if rules["choices"] else []
        for value in outside:
            with pytest.raises(ConfigError, match=rf"^--{field.name}={re.escape(str(value))}: must be .*\(default "):
                owner(**{field.name: value})
        for choice in rules["choices"]:
            assert getattr(owner(**{field.name: choice}), field.name) == choice


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GeometryConfig(image_size=400), "--image_size=400: "),
        (lambda: GeometryConfig(patch_size=261), "--patch_size=261: larger than --image_size=260"),
        (lambda: GeometryConfig(patch_stride=37), "--patch_stride=37: "),
        (lambda: GeometryConfig(260, 260, 64, 32), "--patch_stride=32: .* --image_size=256 would fit"),
        (
            lambda: GeometryConfig(10_000, 10_000, 80, 1),
            "--patch_stride=1: the 9921 x 9921 patches of an image are more than 2 GB",
        ),
        (lambda: CPCConfig(steps_to_predict=2), "--steps_to_predict=2: "),
        (lambda: TrainingConfig(train_epochs=0), "--train_steps=0: "),
        (lambda: PretrainConfig(geometry=GeometryConfig(patch_stride=90)), "--steps_to_predict=3: "),
    ],
)
def test_settings_that_contradict_each_other(make, message):
    with pytest.raises(ConfigError, match=f"^{message}"):
        make()


def test_the_length_of_a_run_in_steps():
    assert TrainingConfig(train_steps=7).steps(1000) == 7
    # Epochs are rounded up: the last one has every example.
    assert TrainingConfig(train_epochs=2, batch_size=8).steps(20) == 5
    assert TrainingConfig(train_epochs=1.5, batch_size=8).steps(11) == 3


def test_grids():
    assert GeometryConfig(image_size=256, patch_size=64, patch_stride=32).grid == 7
    assert GeometryConfig().grid == 6
