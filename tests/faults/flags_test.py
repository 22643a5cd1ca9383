"""Flags that no binary can work with: each is refused in one line, by name, before anything begins."""

import math
import subprocess
import sys

import pytest

from cpc_tf import cli
from cpc_tf.data.config import GeometryConfig
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.evaluation.features import encode_dataset
from cpc_tf.export.config import ExportConfig
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError, RunEnded, leaves, to_flagfile
from tests.binaries import OWN_SETTINGS, SETTINGS, settings_of

LEAVES = {
    (owner, field.name): field for name in (*SETTINGS, *OWN_SETTINGS) for owner, field in leaves(settings_of(name))
}
HUGE = ("1e39", "1e400", "nan", "-1" * 2000, "9" * 40)


def refusal(function, *arguments):
    """The message of the refusal, which is one short line."""
    with pytest.raises(ConfigError) as caught:
        function(*arguments)
    text = str(caught.value)
    assert len(text) <= 1000
    assert text.isprintable()
    return text


def test_every_number_has_a_range():
    """Whether it is a flag or not: both ends, finite."""
    numbers = {key: field for key, field in LEAVES.items() if field.type in (int, float) or field.metadata["listed"]}
    assert len(numbers) > 80
    for (owner, name), field in numbers.items():
        rules = field.metadata
        if rules["choices"]:
            continue
        where = f"{owner.__name__}.{name}"
        assert rules["minimum"] is not None or rules["above"] is not None, f"{where} has no least value"
        assert rules["maximum"] is not None, f"{where} has no largest value"
        assert math.isfinite(rules["maximum"]), where
        whole = int in (field.type, rules["listed"])
        assert rules["maximum"] <= (2**32 if whole else 1e38), f"{where}: what is that large?"


@pytest.mark.parametrize(("owner", "name"), LEAVES, ids=lambda part: getattr(part, "__name__", part))
def test_a_number_out_of_all_proportion_is_refused_by_its_flag(owner, name):
    field = LEAVES[owner, name]
    if field.type is bool:
        return
    numbers = field.type in (int, float) or field.metadata["listed"]
    for value in HUGE if numbers else ("a\nb", "\0", "\x1b[0m", "\udc80", "a" * 5000, " x", "x "):
        assert refusal(cli.parse, owner, [f"--{name}={value}"]).startswith(f"--{name}=")


@pytest.mark.parametrize(
    ("config_class", "flag", "said"),
    [
        (PretrainConfig, "--seed=9223372036854775808", "--seed=9223372036854775808: must be at most 4294967295"),
        (PretrainConfig, "--resize=2147483648", "--resize=2147483648: must be at most 10000"),
        (PretrainConfig, "--seed=0x" + "f" * 5000, "must be a whole number"),
        (PretrainConfig, "--shuffle_window=" + "9" * 23, "--shuffle_window=9999"),
        (PretrainConfig, "--augment_changes=autoaugment=1e23", "autoaugment=1e23: must be a whole number, at least 0"),
        (PretrainConfig, "--augment_changes=rotate.limit=1e30", "rotate.limit=1e30: must be a number, at least 0 and"),
        (EfficientConfig, "--search_rates=nan", "--search_rates=nan: must be numbers .*, each a finite number"),
        (EfficientConfig, "--search_rates=0.1,-1", "--search_rates=0.1,-1: must be numbers .*, each above 0"),
        (EfficientConfig, "--search_rates=0.1;1", "--search_rates=0.1;1: must be numbers .*, e.g. 0.5,1,2"),
        (EfficientConfig, "--search_batches=nan", "--search_batches=nan: must be whole numbers"),
        (EfficientConfig, "--search_batches=16,0", "--search_batches=16,0: must be whole numbers .*, each at least 1"),
        (EfficientConfig, "--search_dropouts=0,2", "--search_dropouts=0,2: must be numbers .*, each at most 1"),
        (EfficientConfig, "--crop_area=1e-320", "--crop_area=1e-320: must be at least"),
        (LinearConfig, "--cached_views=99999999999", "--cached_views=99999999999: must be at most 10000"),
        (LinearConfig, "--workdir=runs/[a]", r"--workdir=runs/\[a\]: must be a path without"),
        (LinearConfig, "--encoder=random:a?b", r"--encoder=random:a\?b: must be a path without"),
        (ExportConfig, "--output=a\\b", r"--output=a\\b: must be a path without"),
        (ExportConfig, "--workdir=a*", r"--workdir=a\*: must be a path without"),
        (PretrainConfig, "--workdir=a\nb", r"--workdir=a\\nb: must be text without control characters"),
        (PretrainConfig, "--" + "x" * 100_000, "x: no such flag"),
        (PretrainConfig, "--mirror=" + "x" * 100_000, "--mirror=xxx.*: must be true or false"),
    ],
    ids=lambda part: part[:30] if isinstance(part, str) else part.__name__,
)
def test_a_flag_that_cannot_work_is_named(config_class, flag, said):
    with pytest.raises(ConfigError, match=said):
        cli.parse(config_class, [flag])
    assert len(refusal(cli.parse, config_class, [flag])) < 400


def test_handles_of_the_web_may_have_a_question_mark():
    handle = "https://tfhub.dev/a/b/1?tf-hub-format=compressed"
    assert cli.parse(LinearConfig, [f"--encoder={handle}"]).probe.encoder == handle


def test_a_grid_of_too_many_patches_is_refused():
    message = refusal(GeometryConfig, 10_000, 10_000, 80, 1)
    assert message.startswith("--patch_stride=1: the 9921 x 9921 patches of an image are more than 2 GB")


def test_features_that_do_not_fit_into_memory_are_refused():
    assert "--cached_views: " in refusal(encode_dataset, [], None, 2**60)


def test_a_message_is_one_short_line():
    text = str(RunEnded("a\nb\0 " + "x" * 500 + " " + "y " * 100_000 + "the end"))
    assert text.startswith("a\\nb\\x00 xxx")
    assert text.endswith("the end")
    assert "500 characters" in text
    assert len(text) <= 1000


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x7fELF\xff\xfe", "no text"),
        (b"--flagfile=FILE\n", "includes itself"),
        (b"--flagfile=OTHER\n", "includes itself"),
        (b"--flagfile\n", "--flagfile: name a file"),
        (b"--flagfile=a\0b\n", "no name of a file"),
        (b"# x\n" * 300_000, "too large"),
        (b"--flagfile=nowhere.flags", "--flagfile=nowhere.flags: cannot be read"),
        (b"a\0b\n", r"a\\x00b: not a flag"),
        (b"--batch_size=\0\n", r"--batch_size=\\x00: must be a whole number"),
    ],
)
def test_a_flag_file_that_cannot_be_read_is_refused(tmp_path, content, said):
    path, other = tmp_path / "x.flags", tmp_path / "other.flags"
    path.write_bytes(content.replace(b"FILE", bytes(path)).replace(b"OTHER", bytes(other)))
    other.write_text(f"--flagfile={tmp_path}/../{tmp_path.name}/x.flags\n")
    with pytest.raises(ConfigError, match=said):
        cli.parse(PretrainConfig, [f"--flagfile={path}"])
    refusal(cli.parse, PretrainConfig, [f"--flagfile={path}"])


@pytest.mark.parametrize("words", [["--flagfile=/"], ["--flagfile", "/"], ["--flagfile"], ["--flagfile=" + "a" * 9999]])
def test_what_is_no_flag_file_is_refused(words):
    assert refusal(cli.parse, PretrainConfig, words).startswith("--flagfile")


def test_flag_files_of_other_editors_are_read(tmp_path):
    (tmp_path / "x.flags").write_bytes(b"\xef\xbb\xbf--seed=3\r\n\r\n// x\r\n--flagfile=\r\n  --batch_size=7 \r\n")
    config = cli.parse(PretrainConfig, ["--flagfile", str(tmp_path / "x.flags"), "--dataset", "photos/40"])
    assert (config.training.seed, config.training.batch_size, config.data.dataset) == (3, 7, "photos/40")
    assert cli.parse(PretrainConfig, to_flagfile(config).splitlines()) == config


def test_a_user_sees_one_line_of_each():
    """In one process after the other, without TensorFlow."""
    script = "from cpc_tf import cli\nfrom cpc_tf.export.config import ExportConfig\ncli.run(ExportConfig, print)"
    for flag in (
        "--flagfile=/bin/ls",
        "--flagfile=/",
        "--step=" + "9" * 100_000,
        "--step=1e9",
        "--verbosity=x",
        "--stderrthreshold=x",
        "a\nb",
    ):
        done = subprocess.run([sys.executable, "-c", script, flag], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, flag
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") == 1
        assert len(done.stderr) < 1000
        assert not done.stdout
