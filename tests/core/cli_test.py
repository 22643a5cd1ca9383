"""Settings as flags: round trips, and what a user sees of them. What is refused is in
tests/refusals_test.py.
"""

import dataclasses
import re
import subprocess
import sys

import pytest
from absl import flags

from cpc_tf.core import cli
from cpc_tf.core.settings import (
    ConfigError,
    Settings,
    changed_flags,
    flatten,
    leaves,
    replace,
    setting,
    to_flagfile,
)
from cpc_tf.detect.config import DetectConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.export.config import ExportConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from tests import processes

# The smallest binary: its settings do not import TensorFlow, which needs seconds to start.
TINY = """
import dataclasses, os, signal
from cpc_tf.core import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.core.settings import Settings
from cpc_tf.training.config import TrainingConfig

@dataclasses.dataclass(frozen=True)
class Tiny(Settings):
    training: TrainingConfig = TrainingConfig()
    geometry: GeometryConfig = GeometryConfig()

def main(config):
    print("ran with", config.training.batch_size, config.geometry.mirror, flush=True)
    if config.training.seed == 7:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException as error:  # as C++ that calls Python does
            raise SystemError("returned a result with an exception set") from error

cli.run(Tiny, main)
"""
# What --help shows.
SHOWN = {
    PretrainConfig: [
        "--patch_stride",
        "[px]",
        "[App. A]",
        "--[no]mirror",
        "<layer|channel|batch|none>",
        "[images]",
    ],
    LinearConfig: ["--test_split", "--cached_views", "[App. B]", "(default: '0.0005')"],
    ExportConfig: ["--output", "[steps]", "<averaged|raw>"],
}


@dataclasses.dataclass(frozen=True)
class AllTypes(Settings):
    """A setting of each type with values that are hard to write."""

    yes: bool = setting(True, "a truth")
    no: bool = setting(False, "another")
    count: int = setting(-3, "a number", unit="things", source="App. Z")
    share: float = setting(1 / 3, "a part")
    whole: float = setting(2, "a part that is whole")
    word: str = setting("a, b = 'c' \"d\"", "a text")
    nothing: str = setting("", "no text")
    kind: str = setting("x", "one of two", choices=("x", "y"))
    directions: int = setting(4, "one of three", choices=(1, 2, 4))
    border: int = setting(2, "how wide")


def changed(field):
    """Another allowed value of a field."""
    rules = field.metadata
    if field.type is bool:
        return not field.default
    if field.name == "objective":  # a text with choices of its own: sums
        return "cpc+rotation"
    if rules["choices"]:
        return rules["choices"][-1 if field.default == rules["choices"][0] else 0]
    if field.type is str:
        return f"gs://bucket/{field.name} #1, 'two' = \"3\""
    step = 0.001 if field.type is float else 1
    top = rules["maximum"]
    return (
        field.default + step if top is None or field.default + step <= top else field.default - step
    )


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
        text = to_flagfile(config)
        (tmp_path / "x.flags").write_text(text)
        again = cli.parse(config_class, [f"--flagfile={tmp_path}/x.flags"])
        assert again == config == cli.parse(config_class, text.splitlines()), field.name
        assert type(flatten(again)[field.name]) is field.type
    assert kept >= len(fields) - 7


@pytest.mark.parametrize(("words", "name", "value"), [
    (["--flagfile=FILE"], "count", 2),
    (["--flagfile=FILE", "--count=3"], "count", 3),
    (["--count=3", "--flagfile=FILE"], "count", 2),
    (["--no"], "no", True),
    (["--no", "--nono"], "no", False),
])  # fmt: skip
def test_later_flags_win(words, name, value, tmp_path):
    path = tmp_path / "x.flags"
    path.write_text("# a comment\n--count=1\n--nono\n\n--count=2\n")
    assert (
        getattr(cli.parse(AllTypes, [word.replace("FILE", str(path)) for word in words]), name)
        == value
    )


def test_flag_files_of_other_editors_are_read(tmp_path):
    (tmp_path / "x.flags").write_bytes(
        b"\xef\xbb\xbf--seed=3\r\n\r\n// x\r\n--flagfile=\r\n  --batch_size=7 \r\n"
    )
    config = cli.parse(
        PretrainConfig, ["--flagfile", str(tmp_path / "x.flags"), "--dataset", "photos/40"]
    )
    assert (config.training.seed, config.training.batch_size, config.data.dataset) == (
        3,
        7,
        "photos/40",
    )


@pytest.mark.parametrize(("given", "wanted"), [
    ("--workdir=~/runs/x", "HOME/runs/x"),
    ("--workdir=~", "HOME"),
    ("--dataset=voc:~/boxes", "voc:HOME/boxes"),
    ("--unlabelled=~/a,b~,/c/~,~/d", "HOME/a,b~,/c/~,HOME/d"),
    ("--data_dir=~nobody_of_this_name/x", "~nobody_of_this_name/x"),
])  # fmt: skip
def test_home_is_meant_in_every_path(given, wanted, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    name = given[2:].partition("=")[0]
    assert flatten(cli.parse(PretrainConfig, [given]))[name] == wanted.replace("HOME", "/home/me")


def test_web_handles_may_have_a_question_mark():
    handle = "https://tfhub.dev/a/b/1?tf-hub-format=compressed"
    assert cli.parse(LinearConfig, [f"--encoder={handle}"]).probe.encoder == handle


def test_boxes_mean_a_preset():
    def encoder(*words):
        return cli.parse(DetectConfig, words).detector.backbone.encoder

    assert encoder("--boxes", "x") == encoder("--preset=boxes/detect")
    assert encoder("--encoder=mine", "--boxes=x") == "mine"
    assert encoder("--boxes=x", "--preset=bccd/detect") == encoder("--boxes=") == ""


def test_changed_flags():
    assert changed_flags(AllTypes(), replace(AllTypes(), border=5, kind="y")) == {
        "kind": ("x", "y"),
        "border": (2, 5),
    }
    saved = PretrainConfig()
    free = replace(saved, steps_per_loop=7, workdir="elsewhere", train_steps=3)
    assert changed_flags(free, saved) == {}
    assert changed_flags(replace(saved, seed=4, norm="batch"), saved) == {
        "seed": (4, 0),
        "norm": ("batch", "layer"),
    }
    with pytest.raises(TypeError, match="seeed"):
        replace(saved, seeed=4)


@pytest.mark.parametrize("config_class", SHOWN)
def test_help_shows_flags_with_their_units(config_class):
    flag_values = flags.FlagValues()
    cli.define(config_class, flag_values)
    text = " ".join(flag_values.get_help().split())
    assert [word for word in SHOWN[config_class] if word not in text] == []


@pytest.mark.parametrize(("words", "status", "printed", "error"), [
    (["--batch_size=8", "--mirror"], 0, "ran with 8 True\n", ""),
    (["--batch_size=0"], 2, "", "error: --batch_size=0: must be at least 1 (default 512)\n"),
    (["--verbosity=x"], 2, "", "error: "),
    # not the library's own error
    (["--seed=7"], 143, "ran with 512 False\n", "stopped by SIGTERM: "),
])  # fmt: skip
def test_a_user_sees_the_run_or_one_line(words, status, printed, error):
    done = subprocess.run(
        [sys.executable, "-c", TINY, *words], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (status, printed)
    assert done.stderr.startswith(error)
    assert done.stderr.count("\n") == (1 if status else 0)


@pytest.mark.slow
def test_the_help_of_a_real_binary():
    """A refusal of one: tests/core/program_test.py."""
    shown = processes.run("cpc_tf.pretrain", "--help")
    assert shown.stdout.startswith("Pre-trains an encoder")
    assert [
        word for word in SHOWN[PretrainConfig] if word not in " ".join(shown.stdout.split())
    ] == []
    assert not shown.stderr


def test_flag_of_other_commands_is_refused():
    assert cli.parse(PretrainConfig, ["--accumulate=2"]).numerics.accumulate == 2
    with pytest.raises(ConfigError, match=r"^--accumulate=2: .*batch norm"):
        cli.parse(LinearConfig, ["--accumulate=2"])


# What research varies -> a value, and one out of its range.
VARIED = {
    PretrainConfig: {
        **{
            "target_dim": ("128", "0"),
            "emb_scale": ("0.2", "-1"),
            "reduction": ("sum", "max"),
            "beta1": ("0.9", "2"),
        },
    },
    EfficientConfig: {
        **{
            "momentum": ("0.8", "2"),
            "search_rates": ("0.1,0.3", "0,1"),
            "search_decays": ("1e-4,1e-3", "1,0"),
        },
        **{
            "search_dropouts": ("0.1,0.5", "0,2"),
            "search_multiples": ("1,4", "0"),
            "crop_stretch": ("2.0", "0.5"),
        },
        **{"look_steps": ("9", "0"), "finetune_look_steps": ("1", "0"), "least_looks": ("2", "0")},
        **{"rate_drops": ("3", "-1"), "drops_at": ("0.3,0.6", "2"), "warmup_steps": ("5", "-1")},
        **{
            "unlabelled_ratio": ("30", "0"),
            "pseudo_weight": ("1.5", "-1"),
            "pseudo_begin": ("0.2", "2"),
        },
        **{
            "pseudo_end": ("0.9", "0.01"),
            "vat_weight": ("0.5", "-1"),
            "entropy_weight": ("0.3", "nan"),
        },
        **{
            "vat_radius": ("0.0515", "0"),
            "vat_probe": ("0.001", "0"),
            "uda_weight": ("20.0", "-1"),
        },
        **{"uda_temperature": ("0.5", "0"), "uda_confidence": ("0.8", "1.5")},
    },
    DetectConfig: {
        **{
            "rpn_positive_iou": ("0.6", "2"),
            "rpn_nms_iou": ("0.6", "-1"),
            "region_points": ("1", "0"),
        },
        **{
            "detection_iou": ("0.75", "2"),
            "looks": ("5", "0"),
            "patience": ("2", "0"),
            "smallest_box": ("4.0", "-1"),
        },
    },
}


@pytest.mark.parametrize("config_class", VARIED)
def test_every_research_constant_is_a_checked_flag(config_class):
    values = {name: value for name, (value, _) in VARIED[config_class].items()}
    together = ",".join(f"{name}={value}" for name, value in values.items())
    config = cli.parse(config_class, [f"--set={together}"])
    assert config == cli.parse(
        config_class, [f"--{name}={value}" for name, value in values.items()]
    )
    assert cli.parse(config_class, ["--set", together, "--set=seed=0"]) == config
    kept = to_flagfile(config).splitlines()
    assert [name for name, value in values.items() if f"--{name}={value}" not in kept] == []
    assert set(changed_flags(config, config_class())) == {*values}
    for name, (_, wrong) in VARIED[config_class].items():
        with pytest.raises(ConfigError, match=f"^--{name}="):
            cli.parse(config_class, [f"--set={name}={wrong}"])


def test_details_are_in_the_full_help_alone():
    flag_values = flags.FlagValues()
    cli.define(EfficientConfig, flag_values, "cpc-tf")
    of = {
        flag.name: module
        for module, own in flag_values.flags_by_module_dict().items()
        for flag in own
    }
    assert (of["vat_weight"], of["vat_probe"], of["look_steps"]) == ("cpc-tf", "details", "details")


def named(words):
    """The flags that a help of `pretrain` shows."""
    shown = processes.run("cpc_tf.pretrain", *words)
    return set(re.findall(r"^  --(?:\[no\])?(\w+)", shown.stdout, re.MULTILINE))


@pytest.mark.slow
def test_helps_show_the_chosen_objectives_flags():
    usual, moco, full = (
        named(words) for words in (["--help"], ["--objective=moco", "--help"], ["--helpfull"])
    )
    of_moco = {f"moco_{name}" for name in ("dim", "temperature", "momentum", "queue_length")}
    assert moco - usual == of_moco
    assert {"directions", "target_dim"} <= usual - moco
    assert usual | moco | {"pirl_negatives", "reduction"} <= full
    assert len(usual) < 70


def test_the_last_objective_brings_its_settings():
    config = cli.parse(
        PretrainConfig, ["--objective", "pirl", "--set=objective=moco,moco_dim=8,patch_size=260"]
    )
    assert config.objective_settings.moco_dim == 8
    assert type(config) is PretrainConfig.having("moco") is type(replace(config, seed=3))
    assert replace(config, objective="cpc", patch_size=80) == PretrainConfig()
    of_sum = replace(config, objective="cpc+moco", directions=2, patch_size=80)
    assert cli.parse(PretrainConfig, to_flagfile(of_sum).splitlines()) == of_sum
    assert set(changed_flags(of_sum, config)) == {"objective", "patch_size"}


OF_0_1_0 = ["--temperature=0.1", "--queue_length=6", "--moco_dim=128", "--objective=OBJECTIVE"]


@pytest.mark.parametrize(
    ("objective", "settings"), [("cpc", {}), ("moco", {"moco_queue_length": 6})]
)
def test_run_flags_of_before_are_read(objective, settings):
    """Which had the settings of all objectives."""
    text = "\n".join(OF_0_1_0).replace("OBJECTIVE", objective)
    size = 80 if objective == "cpc" else 260
    wanted = replace(PretrainConfig(), objective=objective, patch_size=size, **settings)
    assert cli.parse_run(PretrainConfig, f"{text}\n--patch_size={size}") == wanted


def test_preset_settings_of_other_objectives_are_ignored():
    words = ["--preset=photos/pretrain", "--objective=rotation", "--patch_size=64"]
    assert "directions" not in flatten(cli.parse(PretrainConfig, words))
    with pytest.raises(ConfigError, match="^--directions: goes only with --objective=cpc"):
        cli.parse(PretrainConfig, [*words, "--set=directions=1"])


def test_command_has_its_own_defaults_of_shared_flags():
    assert (
        cli.parse(LinearConfig, []).geometry.mirror
        is not cli.parse(PretrainConfig, []).geometry.mirror
    )
    assert to_flagfile(LinearConfig()).count("--mirror=true\n") == 1
    assert replace(LinearConfig(), batch_size=8).geometry.mirror
