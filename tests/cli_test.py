"""Settings as flags: round trips, wrong values, and what a user sees of it."""

import dataclasses
import subprocess
import sys

import pytest
from absl import flags

from cpc_tf import cli
from cpc_tf.export.config import ExportConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import (
    ConfigError,
    Retired,
    Settings,
    changed_flags,
    flatten,
    leaves,
    replace,
    setting,
    to_flagfile,
    unflatten,
)

CONFIGS = [PretrainConfig, LinearConfig, ExportConfig]

# The smallest binary: of settings that do without TensorFlow, which needs seconds to start.
TINY = """
import dataclasses
from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.settings import Settings
from cpc_tf.training.config import TrainingConfig

@dataclasses.dataclass(frozen=True)
class Tiny(Settings):
    training: TrainingConfig = TrainingConfig()
    geometry: GeometryConfig = GeometryConfig()

cli.run(Tiny, lambda config: print("ran with", config.training.batch_size, config.geometry.mirror))
"""
SHOWN = {
    PretrainConfig: ["--patch_stride", "[px]", "[App. A]", "--[no]mirror", "<layer|channel|batch|none>", "[images]"],
    LinearConfig: ["--test_split", "--cached_views", "[App. B]", "(default: '0.0005')"],
    ExportConfig: ["--output", "[steps]", "<averaged|raw>"],
}


@dataclasses.dataclass(frozen=True)
class AllTypes(Settings):
    """A setting of each type, with values that are hard to write."""

    yes: bool = setting(True, "a truth")
    no: bool = setting(False, "another")
    count: int = setting(-3, "a number", unit="things", source="App. Z")
    share: float = setting(1 / 3, "a part")
    whole: float = setting(2, "a part that is whole")
    word: str = setting("a, b = 'c' \"d\"", "a text")
    nothing: str = setting("", "no text")
    kind: str = setting("x", "one of two", choices=("x", "y"))
    directions: int = setting(4, "one of three", choices=(1, 2, 4))


def _merged(values, retired):
    """What the two flags that --shape replaced add up to."""
    width, height = values["shape"].split("x")
    return {"shape": f"{retired.get('width', width)}x{retired.get('height', height)}"}


@dataclasses.dataclass(frozen=True)
class Frame(Settings):
    """Settings with a past: one flag that two were merged into, one setting that is no flag any more."""

    shape: str = setting("4x3", "width and height")
    border: int = setting(2, "how wide", flag=False)
    thick: bool = setting(True, "how thick", flag=False)

    RETIRED = Retired({"width": int, "height": int}, into="shape", translate=_merged)


@dataclasses.dataclass(frozen=True)
class Picture(Settings):
    name: str = setting("", "what is in it")
    frame: Frame = Frame()


def changed(field):
    """Another allowed value of a field."""
    rules = field.metadata
    if field.type is bool:
        return not field.default
    if rules["choices"]:
        return rules["choices"][-1 if field.default == rules["choices"][0] else 0]
    if field.type is str:
        return f"gs://bucket/{field.name} #1, 'two' = \"3\""
    step = 0.001 if field.type is float else 1
    top = rules["maximum"]
    return field.default + step if top is None or field.default + step <= top else field.default - step


def alone(config_class, field):
    """The settings with one field changed, or None where others would have to change with it."""
    try:
        return replace(config_class(), **{field.name: changed(field)})
    except ConfigError:
        return None


@pytest.mark.parametrize("config_class", [*CONFIGS, AllTypes])
def test_defaults_come_back(config_class, tmp_path):
    assert cli.parse(config_class, []) == config_class()
    (tmp_path / "x.flags").write_text(to_flagfile(config_class()))
    assert cli.parse(config_class, [f"--flagfile={tmp_path}/x.flags"]) == config_class()


@pytest.mark.parametrize("config_class", [*CONFIGS, AllTypes])
def test_every_setting_comes_back_changed(config_class, tmp_path):
    """Config -> flag file -> config, one setting at a time, and as the lines that workdir.read_config parses."""
    fields = [field for _, field in leaves(config_class)]
    kept = 0
    for field in fields:
        config = alone(config_class, field)
        if config is None:
            continue
        kept += 1
        text = to_flagfile(config)
        path = tmp_path / f"{field.name}.flags"
        path.write_text(text)
        recorded = not field.metadata["flag"]
        again = cli.parse(config_class, [f"--flagfile={path}"], recorded)
        assert again == config, field.name
        assert again == cli.parse(config_class, text.splitlines(), recorded), field.name
        assert type(flatten(again)[field.name]) is field.type
    assert kept >= len(fields) - 6


def test_later_flags_win(tmp_path):
    path = tmp_path / "x.flags"
    path.write_text("# a comment\n--count=1\n--nono\n\n--count=2\n")
    assert cli.parse(AllTypes, [f"--flagfile={path}"]).count == 2
    assert cli.parse(AllTypes, [f"--flagfile={path}", "--count=3"]).count == 3
    assert cli.parse(AllTypes, ["--count=3", f"--flagfile={path}"]).count == 2


@pytest.mark.parametrize(
    ("flags", "wanted"),
    [
        (["--mirror"], True),
        (["--nomirror"], False),
        (["--mirror=true"], True),
        (["--mirror=false"], False),
        (["--mirror", "--nomirror"], False),
    ],
)
def test_truths(flags, wanted):
    assert cli.parse(PretrainConfig, flags).geometry.mirror is wanted


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--batch_size=0", "--batch_size=0: must be at least 1"),
        ("--batch_size=many", "batch_size=many"),
        ("--batch_size=1.5", "batch_size=1.5"),
        ("--learning_rate=-1", "--learning_rate=-1.0: must be above 0"),
        ("--learning_rate=fast", "learning_rate=fast"),
        ("--beta1=1.5", "--beta1=1.5: must be at most 1"),
        ("--encoder=resnet18", "--encoder=resnet18: must be one of resnet161, resnet50"),
        ("--directions=3", "--directions=3: must be one of 1, 2, 4"),
        ("--mirror=perhaps", "mirror=perhaps"),
        ("--patch_size=300", "--patch_size=300: larger than --image_size=260"),
        ("--patch_stride=50", "--patch_stride=50: the grid does not fit, 30 of 260 px are left over; --image_size=230"),
        ("--batchsize=3", "Unknown command line flag 'batchsize'. Did you mean: batch_size"),
        ("--flagfile=nowhere.flags", "nowhere.flags"),
        ("--dataset=folder:", "--dataset=folder:: name a dataset"),
    ],
)
def test_a_wrong_value_is_one_line(flag, message):
    with pytest.raises(ConfigError) as error:
        cli.parse(PretrainConfig, [flag])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("flags", "shape"),
    [
        ([], "4x3"),
        (["--width=7"], "7x3"),
        (["--width=7", "--height=8", "--width=9"], "9x8"),
        (["--shape=1x1", "--height=2"], "1x2"),
        (["--height=2", "--shape=1x1"], "1x1"),
        (["--height=2", "--shape=1x1", "--width", "5"], "5x1"),
    ],
)
def test_retired_flags_are_translated_in_their_order(flags, shape, tmp_path):
    assert cli.parse(Picture, flags).frame.shape == shape
    (tmp_path / "old.flags").write_text("\n".join(flags))
    assert cli.parse(Picture, [f"--flagfile={tmp_path}/old.flags"]).frame.shape == shape


def test_a_retired_flag_keeps_its_type():
    with pytest.raises(ConfigError, match="width=wide"):
        cli.parse(Picture, ["--width=wide"])


def test_what_is_no_flag_is_read_at_its_default_alone():
    config = cli.parse(Picture, ["--border=2", "--thick", "--name=x"])
    assert config == Picture(name="x")
    for flag, said in (("--border=3", "--border=3"), ("--nothick", "--thick=False")):
        with pytest.raises(ConfigError, match=f"^{said}: is no flag any more, its value is always ") as error:
            cli.parse(Picture, [flag])
        assert "\n" not in str(error.value)


def test_a_runs_record_holds_what_is_no_flag():
    config = replace(Picture(), border=5, shape="2x2")
    lines = to_flagfile(config).splitlines()
    assert "--border=5" in lines
    assert cli.parse(Picture, lines, recorded=True) == config
    assert changed_flags(Picture(), config) == {"shape": ("4x3", "2x2"), "border": (2, 5)}


def test_changed_flags():
    saved = PretrainConfig()
    assert changed_flags(saved, saved) == {}
    free = replace(saved, steps_per_loop=7, workdir="elsewhere", train_steps=3)
    assert changed_flags(free, saved) == {}
    assert changed_flags(replace(saved, seed=4, norm="batch"), saved) == {
        "seed": (4, 0),
        "norm": ("batch", "layer"),
    }


def test_replace():
    config = replace(PretrainConfig(), seed=4, encoder="small")
    assert (config.training.seed, config.encoder.encoder) == (4, "small")
    assert unflatten(PretrainConfig, flatten(config)) == config
    with pytest.raises(TypeError, match="seeed"):
        replace(config, seeed=4)


def help_of(config_class):
    """What --help shows of the flags."""
    flag_values = flags.FlagValues()
    cli.define(config_class, flag_values)
    return flag_values.get_help()


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("config_class", CONFIGS)
def test_help_shows_the_flags_with_their_units(config_class):
    text = " ".join(help_of(config_class).split())
    assert [word for word in SHOWN[config_class] if word not in text] == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--batchsize=3"], "Unknown command line flag 'batchsize'. Did you mean: batch_size"),
        (["--patch_size=300"], "--patch_size=300: larger than --image_size=260"),
        (["--batch_size=x"], "--batch_size=x"),
        (["photos"], "photos: not a flag"),
        (["--flagfile=nowhere.flags"], "nowhere.flags"),
    ],
)
def test_a_user_sees_one_line_and_status_2(flags, message):
    done = run("-c", TINY, *flags)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


def test_help_shows_only_living_flags():
    shown = help_of(Picture)
    assert "--shape" in shown
    assert [name for name in ("width", "height", "border", "thick") if f"--{name}" in shown] == []


def test_a_user_sees_the_run():
    done = run("-c", TINY, "--batch_size=8", "--mirror")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran with 8 True\n", "")


def test_the_real_binaries():
    """A help and a refusal; at the same time, since TensorFlow takes its time to start."""
    commands = (["cpc_tf.pretrain", "--help"], ["export", "--step=-1"])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-m", *command], **pipes) for command in commands]
    (shown, noise), refusal = [process.communicate(timeout=300) for process in started]
    assert shown.startswith("Pre-trains an encoder")
    assert [word for word in SHOWN[PretrainConfig] if word not in " ".join(shown.split())] == []
    assert not noise
    assert refusal == ("", "error: --step=-1: must be at least 0 (default 0)\n")
    assert started[1].returncode == 2
