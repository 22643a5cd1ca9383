"""Every flag file parses, says what it is, and the paper's presets hold the paper's values."""

import pathlib
import re

import pytest

from cpc_tf import cli
from cpc_tf.encoders.networks.resnet import ARCHITECTURES
from cpc_tf.export.run import ExportConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import flatten, leaves
from cpc_tf.tasks import TASKS

ROOT = pathlib.Path(__file__).parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("flags/*/*") if path.is_file())
# The rungs of Fig. 3 in flags/ablation/ and what each changes.
LADDER = {
    "1_v1": {},
    "2_mc": {"encoder": "small"},
    "3_bu": {"directions": 2},
    "4_ln": {"norm": "layer"},
    "5_rc": {"augment": "colour_drop"},
    "6_hp": {"directions": 4},
    "7_lp": {"image_size": 64, "patch_size": 16, "patch_stride": 12},
    "8_pa": {"augment": "small_patches"},
}
# The start of a file's name -> (the binary, its settings).
BINARIES = {task.name: (task.module, task.config) for task in TASKS.values()}

# Appendix A, and Sec. 4.1 where it says more.
PAPER = {
    "dataset": "imagenet2012",
    "split": "train",
    "resize": 300,
    "image_size": 260,
    "patch_size": 80,
    "patch_stride": 36,
    "augment": "full",
    "augment_changes": "",
    "norm": "layer",
    "output_stack": 0,
    "directions": 4,
    "steps_to_ignore": 2,
    "steps_to_predict": 3,
    "target_dim": 64,
    "emb_scale": 0.1,
    "context_blocks": 5,
    "context_dim": 256,
    "learning_rate": 4e-4,
    "schedule": "constant",
    "warmup_steps": 0,
    "beta1": 0.8,
    "beta2": 0.999,
    "epsilon": 1e-8,
    "clip_norm": 0.01,
    "average_decay": 0.9999,
    "batch_size": 512,
    "train_epochs": 200,
    "train_steps": 0,
}
# Van den Oord et al. 2018, Sec. 3.2; batch norm after Sec. 4.1 of the CPC v2 paper.
CPC_V1 = {
    "image_size": 256,
    "patch_size": 64,
    "patch_stride": 32,
    "mirror": True,
    "augment": "v1",
    "encoder": "resnet101_v1",
    "norm": "batch",
    "directions": 1,
    "steps_to_ignore": 1,
    "steps_to_predict": 5,
    "learning_rate": 2e-4,
}
# Appendix B.
LINEAR = {
    "dataset": "imagenet2012",
    "split": "train",
    "test_split": "validation",
    "geometry_from": "encoder",
    "augment": "full",
    "mirror": False,
    "learning_rate": 5e-4,
    "batch_size": 512,
    "cached_views": 0,
}
# Appendix C.
EFFICIENT = {
    "dataset": "imagenet2012",
    "image_size": 224,
    "augment": "full",
    "augment_changes": "",
    "endpoint": "feature_map",
    "head_blocks": 11,
    "head_width": 4096,
    "head_bottleneck": 1024,
    "search_rates": "0.05,0.1,0.2",
    "search_decays": "1e-5,1e-2",
    "search_dropouts": "0,1",
    "search_batches": "512,1024",
}
# Sec. 4.3, Doersch et al. 2015, and the public C4 recipe.
DETECT = {
    "dataset": "voc/2007",
    "split": "train+validation",
    "test_split": "test",
    "canvas_colour_drop": 0.5,
    "smallest_area": 150_000,
    "largest_area": 450_000,
    "area_scale": 1,
    "anchor_sizes": "32,64,128,256,512",
    "rpn_train_proposals": 2000,
    "rpn_test_proposals": 1000,
    "region_samples": 512,
    "batch_size": 16,
    "train_steps": 7300,
    "learning_rate": 0.02,
    "momentum": 0.9,
    "weight_decay": 1e-4,
    "warmup_steps": 100,
    "detection_iou": 0.5,
}
WANTED = {
    "flags/imagenet/pretrain_resnet161.flags": {**PAPER, "mirror": False, "encoder": "resnet161"},
    "flags/imagenet/pretrain_resnet50.flags": {**PAPER, "mirror": False, "encoder": "resnet50"},
    "flags/imagenet/pretrain_cpc_v1.flags": {**PAPER, **CPC_V1},
    "flags/imagenet/linear.flags": LINEAR,
    "flags/imagenet/efficient.flags": EFFICIENT,
    "flags/voc/detect.flags": DETECT,
    "flags/imagenet/efficient_pixels.flags": {**EFFICIENT, "backbone": "resnet200_v2"},
}


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # where the commands are typed; nested flag files are found from there


def binary(path):
    """(module, settings class) that a flag file is for."""
    name = pathlib.Path(path).name
    kinds = [kind for kind in BINARIES if name == f"{kind}.flags" or name.startswith(f"{kind}_")]
    assert len(kinds) == 1, f"{path}: which binary is this for? Known names begin with {', '.join(BINARIES)}"
    return BINARIES[kinds[0]]


def lines(path):
    return (ROOT / path).read_text().splitlines()


def header(path):
    """The comment that opens a flag file, as one text."""
    taken = []
    for line in lines(path):
        if not line.startswith("#"):
            break
        taken.append(line.lstrip("#").strip())
    return "\n".join(taken)


def page():
    """flags/README.md: each preset with the first sentence of its header."""
    rows = [
        "# Presets",
        "",
        "A preset is a file of flags: `python -m cpc_tf.pretrain --flagfile=flags/photos/pretrain.flags`.",
    ]
    rows += ["Flags after `--flagfile` win. Each file opens with its source, command, cost and expected figure.", ""]
    rows += ["`python -m tests.presets_test > flags/README.md` writes this page.", "", "| flags/ | what |", "|---|---|"]
    for path in FILES:
        said, _, _ = header(path).partition("\nCommand")
        rows.append(f"| `{path.removeprefix('flags/')}` | {' '.join(said.split())} |")
    return "\n".join(rows) + "\n"


def test_the_page_lists_all_presets():
    assert (ROOT / "flags/README.md").read_text() == page(), "run: python -m tests.presets_test > flags/README.md"


def test_there_are_presets():
    assert len(FILES) >= 8
    assert set(WANTED) <= set(FILES)


@pytest.mark.parametrize("path", FILES)
def test_every_flag_file_parses(path):
    assert path.endswith(".flags")
    cli.parse(binary(path)[1], [f"--flagfile={path}"])


@pytest.mark.parametrize("path", FILES)
def test_every_line_is_a_comment_or_one_flag(path):
    for line in lines(path):
        # absl takes a comment behind a value for a part of it, and a word without dashes for an argument.
        assert not line or re.fullmatch(r"#.*|--[a-z_0-9]+(=[^#]*[^#\s])?", line), line
    names = [line.split("=")[0].removeprefix("--") for line in lines(path) if line.startswith("--")]
    assert len(names) == len(set(names)), "a flag is set twice"
    flags = {field.name for _, field in leaves(binary(path)[1]) if field.metadata["flag"]} | {"flagfile"}
    assert {name for name in names if name not in flags and name.removeprefix("no") not in flags} == set()


@pytest.mark.parametrize("path", FILES)
def test_the_header_gives_the_command(path):
    module, config_class = binary(path)
    joined = re.sub(r"\\\n\s*", " ", header(path))
    commands = re.findall(r"python -m \S+ .*", joined)
    assert commands, "the header gives no command"
    for command in commands:
        if command.startswith("python -m export "):
            cli.parse(ExportConfig, command.split()[3:])
            continue
        assert command.startswith(f"python -m {module} --flagfile={path} "), command
        cli.parse(config_class, command.split()[3:])


def given(pattern, paths=FILES):
    """What a pattern finds in the headers of presets, lines that go on joined."""
    return [found for path in paths for found in re.findall(pattern, re.sub(r"\\\n\s*", " ", header(path)))]


@pytest.mark.parametrize("path", FILES)
def test_the_header_gives_the_export_before_a_classifier(path):
    """An --encoder on disk is the --output of an export in the same header, of a run that a preset's command makes."""
    for encoder in given(r"--encoder=(runs/\S+)", [path]):
        exports = dict(given(r"python -m export --workdir=(\S+) --output=(\S+)", [path]))
        assert encoder in exports.values(), f"no export to {encoder}"
        made = dict(given(r"python -m cpc_tf.pretrain --flagfile=(\S+) .*--workdir=(\S+)"))
        for preset in given(r"after (flags/\S+\.flags)", [path]):
            assert made[preset] in exports, f"{preset} writes to {made[preset]}"
        assert given(r"after (flags/\S+\.flags)", [path]), "which preset makes the run that is exported?"


@pytest.mark.parametrize("path", FILES)
def test_the_header_gives_cost_and_marked_expectations(path):
    text = header(path)
    assert "Cost:" in text
    expected = text.partition("Expected:")[2]
    assert re.search(r"\bpaper:|\bmeasured:|\bnot measured here\b", expected), "a figure is the paper's or measured"


@pytest.mark.parametrize("path", WANTED)
def test_the_papers_values(path):
    values = flatten(cli.parse(binary(path)[1], [f"--flagfile={path}"]))
    assert {name: values[name] for name in WANTED[path]} == WANTED[path]


@pytest.mark.parametrize("path", [path for path in WANTED if "pretrain" in path])
def test_what_the_paper_says_is_written_out(path):
    """A preset shall not change when a default does."""
    written = {line.split("=")[0] for line in lines(path) if line.startswith("--")}
    no_flags = {field.name for _, field in leaves(PretrainConfig) if not field.metadata["flag"]}
    assert {
        f"--{name}" for name in set(WANTED[path]) - no_flags - {"augment_changes", "train_steps", "mirror"}
    } <= written


def test_the_ladder_adds_one_change_a_rung():
    assert {path for path in FILES if "ablation/" in path} == {rung(name) for name in LADDER}
    before = flatten(cli.parse(PretrainConfig, [f"--flagfile={rung('1_v1')}"]))
    wanted = {"encoder": "tiny", "norm": "batch", "directions": 1, "augment": "v1"}
    assert {name: before[name] for name in wanted} == wanted
    for name, changes in LADDER.items():
        now = flatten(cli.parse(PretrainConfig, [f"--flagfile={rung(name)}"]))
        assert {key: value for key, value in now.items() if value != before[key]} == changes, name
        before = now


def test_the_ladder_ends_at_the_demos_preset():
    last, demo = (cli.parse(PretrainConfig, [f"--flagfile={p}"]) for p in (rung("8_pa"), "flags/photos/pretrain.flags"))
    length_and_probe = {"train_steps", "train_epochs", "probe_every", "probe_split"}
    assert set(_changed(last, demo)) <= length_and_probe


def rung(name):
    return f"flags/ablation/pretrain_{name}.flags"


def _changed(one, other):
    one, other = flatten(one), flatten(other)
    return [name for name in one if one[name] != other[name]]


def test_the_papers_grids():
    grids = {}
    for path in WANTED:
        if "pretrain" in path:
            grids[path.split("_", 1)[1]] = cli.parse(PretrainConfig, [f"--flagfile={path}"]).geometry.grid
    assert grids == {"resnet161.flags": 6, "resnet50.flags": 6, "cpc_v1.flags": 7}


def test_the_papers_encoders():
    blocks = {name: [(s.blocks, s.bottleneck, s.width) for s in ARCHITECTURES[name].stacks] for name in ARCHITECTURES}
    assert blocks["resnet161"] == [(3, 64, 256), (4, 128, 512), (46, 512, 4096)]
    assert blocks["resnet50"] == [(3, 64, 256), (4, 128, 512), (6, 256, 1024), (3, 512, 2048)]
    assert blocks["resnet101_v1"] == [(3, 64, 256), (4, 128, 512), (23, 256, 1024)]


def test_the_defaults_are_the_papers():
    values = flatten(PretrainConfig())
    wanted = {**PAPER, "encoder": "resnet161", "mirror": False, "dataset": "photos"}
    assert {name: values[name] for name in wanted} == wanted


def test_the_papers_augmentation():
    """Appendix A: two of fourteen primitives, then four steps with these probabilities."""
    policy = cli.parse(PretrainConfig, ["--flagfile=flags/imagenet/pretrain_resnet161.flags"]).augment.policy
    assert policy.chosen == 2
    assert len(policy.among) == 14
    steps = {each.name: policy.entries[each.name] for each in policy.used if not each.primitive}
    assert steps == {"elastic": 0.2, "histogram": 0.2, "distort": 0.8, "grey": 0.25}


def test_the_largest_encoder_fits_its_devices():
    config = cli.parse(PretrainConfig, ["--flagfile=flags/imagenet/pretrain_resnet161.flags"])
    assert config.numerics.precision == "bfloat16"
    assert config.encoder.recompute


if __name__ == "__main__":
    print(page(), end="")
