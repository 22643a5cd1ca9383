"""Settings as flags: round trips, wrong values, and what a user sees of them."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest
from absl import flags

from cpc_tf import cli
from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.export.run import ExportConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, Settings, changed_flags, flatten, leaves, replace, setting, to_flagfile
from cpc_tf.termination import Interrupted

# The smallest binary: its settings do not import TensorFlow, which needs seconds to start.
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
# What --help shows.
SHOWN = {
    PretrainConfig: ["--patch_stride", "[px]", "[App. A]", "--[no]mirror", "<layer|channel|batch|none>", "[images]"],
    LinearConfig: ["--test_split", "--cached_views", "[App. B]", "(default: '0.0005')"],
    ExportConfig: ["--output", "[steps]", "<averaged|raw>"],
}


@dataclasses.dataclass(frozen=True)
class AllTypes(Settings):
    """A setting of each type with values that are hard to write, and two settings that are not flags."""

    yes: bool = setting(True, "a truth")
    no: bool = setting(False, "another")
    count: int = setting(-3, "a number", unit="things", source="App. Z")
    share: float = setting(1 / 3, "a part")
    whole: float = setting(2, "a part that is whole")
    word: str = setting("a, b = 'c' \"d\"", "a text")
    nothing: str = setting("", "no text")
    kind: str = setting("x", "one of two", choices=("x", "y"))
    directions: int = setting(4, "one of three", choices=(1, 2, 4))
    border: int = setting(2, "how wide", flag=False)
    thick: bool = setting(True, "how thick", flag=False)


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


@pytest.mark.parametrize("config_class", [*SHOWN, AllTypes])
def test_every_setting_comes_back(config_class, tmp_path):
    """Config -> flag file -> config: the defaults, and each setting changed alone."""
    assert cli.parse(config_class, []) == config_class()
    assert cli.parse(config_class, to_flagfile(config_class()).splitlines()) == config_class()
    fields = [field for _, field in leaves(config_class)]
    kept = 0
    for field in fields:
        try:
            config = replace(config_class(), **{field.name: changed(field)})
        except ConfigError:  # other settings would have to change with it
            continue
        kept += 1
        text, recorded = to_flagfile(config), not field.metadata["flag"]
        (tmp_path / "x.flags").write_text(text)
        again = cli.parse(config_class, [f"--flagfile={tmp_path}/x.flags"], recorded)
        assert again == config == cli.parse(config_class, text.splitlines(), recorded), field.name
        assert type(flatten(again)[field.name]) is field.type
    assert kept >= len(fields) - 6


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        (["--flagfile=FILE"], "count", 2),
        (["--flagfile=FILE", "--count=3"], "count", 3),
        (["--count=3", "--flagfile=FILE"], "count", 2),
        (["--no"], "no", True),
        (["--no=false"], "no", False),
        (["--no", "--nono"], "no", False),
        (["--border=2", "--thick"], "border", 2),
    ],
)
def test_later_flags_win(words, name, value, tmp_path):
    path = tmp_path / "x.flags"
    path.write_text("# a comment\n--count=1\n--nono\n\n--count=2\n")
    assert getattr(cli.parse(AllTypes, [word.replace("FILE", str(path)) for word in words]), name) == value


# Flags that no binary can work with -> the message.
WRONG = [
    (PretrainConfig, "--batch_size=many", "--batch_size=many: must be a whole number"),
    (PretrainConfig, "--batch_size=1.5", "--batch_size=1.5: must be a whole number"),
    (PretrainConfig, "--learning_rate=fast", "--learning_rate=fast: must be a number"),
    (PretrainConfig, "--encoder=resnet18", "--encoder=resnet18: must be one of resnet161, resnet50"),
    (PretrainConfig, "--mirror=perhaps", "--mirror=perhaps: must be true or false"),
    (PretrainConfig, "--mirror=" + "x" * 100_000, "--mirror=xxx.*: must be true or false"),
    (PretrainConfig, "--patch_stride=50", "--patch_stride=50: the grid does not fit, 30 .* over; --image_size=230"),
    (PretrainConfig, "--batchsize=3", "Unknown command line flag 'batchsize'. Did you mean: batch_size"),
    (PretrainConfig, "--" + "x" * 100_000, "x: no such flag"),
    (PretrainConfig, "photos", "photos: not a flag"),
    (PretrainConfig, "a\nb", r"a\\nb: not a flag"),
    (PretrainConfig, "--dataset=folder:", "--dataset=folder:: name a dataset"),
    (PretrainConfig, "--seed=9223372036854775808", "--seed=9223372036854775808: must be at most 4294967295"),
    (PretrainConfig, "--seed=0x" + "f" * 5000, "must be a whole number"),
    (PretrainConfig, "--augment_changes=autoaugment=1e23", "autoaugment=1e23: must be a whole number, at least 0"),
    (PretrainConfig, "--augment_changes=rotate.limit=1e30", "rotate.limit=1e30: must be a number, at least 0 and"),
    (PretrainConfig, "--workdir=a\nb", r"--workdir=a\\nb: must be text without control characters"),
    (DetectConfig, "--anchor_sizes=nan", "--anchor_sizes=nan: must be numbers .*, each a finite number"),
    (DetectConfig, "--anchor_sizes=0.1,-1", "--anchor_sizes=0.1,-1: must be numbers .*, each above 0"),
    (DetectConfig, "--anchor_sizes=0.1;1", "--anchor_sizes=0.1;1: must be numbers .*, e.g. 0.5,1,2"),
    (EfficientConfig, "--crop_area=1e-320", "--crop_area=1e-320: must be at least"),
    (LinearConfig, "--unlabelled=x", "--unlabelled=x: a classifier learns from pictures with labels only"),
    (LinearConfig, "--workdir=runs/[a]", r"--workdir=runs/\[a\]: must be a path without"),
    (LinearConfig, "--encoder=random:a?b", r"--encoder=random:a\?b: must be a path without"),
    (ExportConfig, "--output=a\\b", r"--output=a\\b: must be a path without"),
    (AllTypes, "--border=3", "^--border=3: not configurable from the command line, where it is always 2"),
    (AllTypes, "--nothick", "^--thick=False: not configurable from the command line, where it is always True"),
    (PretrainConfig, "--flagfile", "--flagfile: name a file"),
    (PretrainConfig, "--flagfile=/", "--flagfile=/: cannot be read"),
    (PretrainConfig, "--flagfile=" + "a" * 9999, "--flagfile=aaa.*: cannot be read"),
    (PretrainConfig, "--flagfile=nowhere.flags", "--flagfile=nowhere.flags: cannot be read"),
]


@pytest.mark.parametrize(
    ("config_class", "flag", "message"), WRONG, ids=[f"{owner.__name__} {flag[:30]!r}" for owner, flag, _ in WRONG]
)
def test_a_wrong_flag_is_refused_in_one_line(config_class, flag, message):
    with pytest.raises(ConfigError, match=message) as error:
        cli.parse(config_class, [flag])
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\xff\xfe", "not a text file"),
        (b"--flagfile=FILE\n", "includes itself"),
        (b"--flagfile=OTHER\n", "includes itself"),
        (b"--flagfile\n", "--flagfile: name a file"),
        (b"--flagfile=a\0b\n", "not the name of a file"),
        (b"# x\n" * 300_000, "too large"),
        (b"a\0b\n", r"a\\x00b: not a flag"),
        (b"--batch_size=\0\n", r"--batch_size=\\x00: must be a whole number"),
    ],
)
def test_a_flag_file_that_cannot_be_read_is_refused(tmp_path, content, message):
    path, other = tmp_path / "x.flags", tmp_path / "other.flags"
    path.write_bytes(content.replace(b"FILE", bytes(path)).replace(b"OTHER", bytes(other)))
    other.write_text(f"--flagfile={tmp_path}/../{tmp_path.name}/x.flags\n")
    with pytest.raises(ConfigError, match=message) as error:
        cli.parse(PretrainConfig, [f"--flagfile={path}"])
    assert str(error.value).isprintable()


def test_flag_files_of_other_editors_are_read(tmp_path):
    (tmp_path / "x.flags").write_bytes(b"\xef\xbb\xbf--seed=3\r\n\r\n// x\r\n--flagfile=\r\n  --batch_size=7 \r\n")
    config = cli.parse(PretrainConfig, ["--flagfile", str(tmp_path / "x.flags"), "--dataset", "photos/40"])
    assert (config.training.seed, config.training.batch_size, config.data.dataset) == (3, 7, "photos/40")


def test_web_handles_may_have_a_question_mark():
    handle = "https://tfhub.dev/a/b/1?tf-hub-format=compressed"
    assert cli.parse(LinearConfig, [f"--encoder={handle}"]).probe.encoder == handle


def test_changed_flags():
    assert changed_flags(AllTypes(), replace(AllTypes(), border=5, kind="y")) == {"kind": ("x", "y"), "border": (2, 5)}
    saved = PretrainConfig()
    free = replace(saved, steps_per_loop=7, workdir="elsewhere", train_steps=3)
    assert changed_flags(free, saved) == {}
    assert changed_flags(replace(saved, seed=4, norm="batch"), saved) == {"seed": (4, 0), "norm": ("batch", "layer")}
    with pytest.raises(TypeError, match="seeed"):
        replace(saved, seeed=4)


@pytest.mark.parametrize("config_class", SHOWN)
def test_help_shows_the_flags_alone_with_their_units(config_class):
    flag_values = flags.FlagValues()
    cli.define(config_class, flag_values)
    text = " ".join(flag_values.get_help().split())
    assert [word for word in SHOWN[config_class] if word not in text] == []
    constants = [field.name for _, field in leaves(config_class) if not field.metadata["flag"]]
    assert [name for name in constants if f"--{name}:" in text or f"--[no]{name}:" in text] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "status", "printed", "error"),
    [
        (["--batch_size=8", "--mirror"], 0, "ran with 8 True\n", ""),
        (["a\nb"], 2, "", "error: a\\nb: not a flag; settings are given as --name=value, see --help\n"),
        (["--batch_size=0"], 2, "", "error: --batch_size=0: must be at least 1 (default 512)\n"),
        (["--verbosity=x"], 2, "", "error: "),
    ],
)
def test_a_user_sees_the_run_or_one_line(words, status, printed, error):
    done = subprocess.run([sys.executable, "-c", TINY, *words], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (status, printed)
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == (1 if status else 0)


def test_what_a_library_makes_of_a_signal_is_that_signal(monkeypatch, capsys):
    """Code in C++ may raise an error of its own when Python code that it calls is interrupted."""

    def interrupted(config):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Interrupted as error:
            raise SystemError("returned a result with an exception set") from error

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(cli.app, "run", lambda main, **_: sys.exit(main([])))
    monkeypatch.setattr(cli, "_from_flags", lambda *_: None)
    monkeypatch.setattr(cli, "define", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        cli.run(PretrainConfig, interrupted)
    for number, handler in before.items():
        signal.signal(number, handler)
    assert ended.value.code == 143
    assert capsys.readouterr().err.startswith("error: stopped by SIGTERM: ")


@pytest.mark.slow
def test_the_real_binaries():
    """A help and a refusal; at the same time, since TensorFlow is slow to start."""
    commands = (["cpc_tf.pretrain", "--help"], ["export", "--step=-1"])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-m", *command], **pipes) for command in commands]
    (shown, noise), refusal = [process.communicate(timeout=300) for process in started]
    assert shown.startswith("Pre-trains an encoder")
    assert [word for word in SHOWN[PretrainConfig] if word not in " ".join(shown.split())] == []
    assert not noise
    assert refusal == ("", "error: --step=-1: must be at least 0 (default 0)\n")
    assert started[1].returncode == 2
