"""Every flag file parses, says what it is, and the paper's presets hold the paper's values."""

import pathlib
import re

import pytest

from cpc_tf import cli, presets
from cpc_tf.encoders.networks.resnet import ARCHITECTURES
from cpc_tf.export.run import ExportConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import flatten, leaves, to_flagfile
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
    "8_pa": {"augment": "full"},
    "9_small_patches": {"augment": "small_patches"},  # ours
}
# The same on ImageNet. The larger patches need other offsets; --recompute changes memory alone.
IMAGENET_LADDER = {
    "1_v1": {},
    "2_mc": {"encoder": "resnet161"},
    "3_bu": {"directions": 2},
    "4_ln": {"norm": "layer", "recompute": True},
    "5_rc": {"augment": "colour_drop"},
    "6_hp": {"directions": 4},
    "7_lp": {"image_size": 260, "patch_size": 80, "patch_stride": 36, "steps_to_ignore": 2, "steps_to_predict": 3},
    "8_pa": {"augment": "full"},
}


def flags(text):
    """{name: value} of flags as text."""
    return dict(line.removeprefix("--").split("=", 1) for line in text.split())


def flags_of(command):
    """{name: value} of the flags of a command that have a value."""
    return dict(re.findall(r"--(\w+)=(\S+)", command))


def values(config):
    return flags(to_flagfile(config))


# Appendix A, and Sec. 4.1 where it says more.
PAPER = flags("""
    --dataset=imagenet2012 --split=train --resize=300 --image_size=260 --patch_size=80 --patch_stride=36
    --augment=full --augment_changes= --mirror=false --norm=layer --output_stack=0 --directions=4
    --steps_to_ignore=2 --steps_to_predict=3 --target_dim=64 --emb_scale=0.1 --context_blocks=5 --context_dim=256
    --learning_rate=0.0004 --schedule=constant --warmup_steps=0 --beta1=0.8 --beta2=0.999 --epsilon=1e-08
    --clip_norm=0.01 --average_decay=0.9999 --batch_size=512 --train_epochs=200.0 --train_steps=0
""")
# Van den Oord et al. 2018, Sec. 3.2; batch norm after Sec. 4.1 of the CPC v2 paper.
CPC_V1 = flags("""
    --image_size=256 --patch_size=64 --patch_stride=32 --mirror=true --augment=v1 --encoder=resnet101_v1 --norm=batch
    --directions=1 --steps_to_ignore=1 --steps_to_predict=5 --learning_rate=0.0002
""")
# Appendix B.
LINEAR = flags("""
    --dataset=imagenet2012 --split=train --test_split=validation --geometry_from=encoder --augment=encoder
    --mirror=false --learning_rate=0.0005 --batch_size=512 --cached_views=0
""")
# Appendix C.
EFFICIENT = flags("""
    --dataset=imagenet2012 --image_size=224 --augment=full --augment_changes= --endpoint=feature_map --head_blocks=11
    --head_width=4096 --search_rates=0.05,0.1,0.2 --search_decays=1e-5,1e-2 --search_dropouts=0,1
    --batch_size=512 --search_multiples=1,2 --encoder_adam=paper
""")
# Appendix C.1: four depths, a linear layer behind the network's last mean.
PIXELS = flags("--backbone=resnet200_v2,resnet50_v2,resnet101_v2,resnet152_v2 --norm=batch --head_blocks=0")
# Sec. 4.3, Doersch et al. 2015, and the public C4 recipe.
DETECT = flags("""
    --dataset=voc/2007 --split=train+validation --test_split=test --canvas_colour_drop=0.5 --smallest_area=150000
    --largest_area=450000 --area_scale=1.0 --anchor_sizes=32,64,128,256,512 --rpn_train_proposals=2000
    --rpn_test_proposals=1000 --region_samples=512 --batch_size=16 --train_steps=0 --train_epochs=36.0
    --frozen_epochs=24.0 --held_out=0.1 --learning_rate=0.02 --encoder_rate_factor=0.1 --rate_drops=0.75,0.9167
    --momentum=0.9 --weight_decay=0.0001 --warmup_steps=100 --detection_iou=0.5
""")
# The module of tfhub.dev/deepmind/bigbigan-revnet50x4/1: its signature, its output of most dimensions, its images.
BIGBIGAN = flags("--signature=encode --endpoint=bn_crelu_feat --image_size=256")
WANTED = {
    "flags/imagenet/pretrain_resnet161.flags": {**PAPER, "encoder": "resnet161"},
    "flags/imagenet/pretrain_resnet50.flags": {**PAPER, "encoder": "resnet50"},
    "flags/imagenet/pretrain_cpc_v1.flags": {**PAPER, **CPC_V1},
    "flags/imagenet/linear.flags": LINEAR,
    "flags/imagenet/efficient.flags": EFFICIENT,
    "flags/voc/detect.flags": DETECT,
    "flags/voc/detect_supervised.flags": {**DETECT, "backbone_endpoint": "stack3", "region_head": "encoder"},
    "flags/imagenet/efficient_pixels.flags": {**EFFICIENT, **PIXELS},
    "flags/imagenet/efficient_pixels_resnet161.flags": {**EFFICIENT, "backbone": "resnet161", "norm": "batch"},
    "flags/imagenet/linear_bigbigan.flags": {
        **LINEAR,
        **BIGBIGAN,
        "augment": "none",
        "geometry_from": "flags",
    },
    "flags/imagenet/efficient_bigbigan.flags": {**EFFICIENT, **BIGBIGAN, "finetune_steps": "0"},
}


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # where the commands are typed; nested flag files are found from there


def task_of(path):
    """The task that a flag file is for: its name begins with the task's. A release is a pre-training."""
    name = pathlib.Path(path).stem.replace("release", "pretrain")
    kinds = [kind for kind in TASKS if name == kind or name.startswith(f"{kind}_")]
    assert len(kinds) == 1, f"{path}: which binary is this for? Known names begin with {', '.join(TASKS)}"
    return TASKS[kinds[0]]


def parsed(path):
    return cli.parse(task_of(path).config, [f"--flagfile={path}"])


def lines(path):
    return (ROOT / path).read_text().splitlines()


def header(path):
    return presets.header(str(pathlib.Path(path).relative_to("flags").with_suffix("")))


def page():
    """flags/README.md: each preset with the first sentence of its header."""
    rows = [
        "# Presets",
        "",
        "A preset is a file of flags: `cpc-tf pretrain --preset=photos/pretrain --workdir=runs/photos/small/pretrain`,",
        "or by its path `python -m cpc_tf.pretrain --flagfile=flags/photos/pretrain.flags`. `cpc-tf presets` lists",
        "them. Flags after it win. Each file opens with its source, command, cost and expected figure. What its",
        "command writes is in `runs/DATA/ENCODER/`: `pretrain`, `hub` (a module), `linear`, `efficient_0.01`,",
        "`detect`.",
        "",
    ]
    rows += ["`python -m tests.presets_test > flags/README.md` writes this page.", "", "| flags/ | what |", "|---|---|"]
    for path in FILES:
        rows.append(f"| `{path.removeprefix('flags/')}` | {header(path).what} |")
    return "\n".join(rows) + "\n"


def test_the_page_lists_all_presets():
    assert set(WANTED) <= set(FILES)
    assert (ROOT / "flags/README.md").read_text() == page(), "run: python -m tests.presets_test > flags/README.md"


@pytest.mark.parametrize("path", FILES)
def test_every_line_is_a_comment_or_one_flag(path):
    assert path.endswith(".flags")
    parsed(path)
    for line in lines(path):
        # absl takes a comment behind a value for a part of it, and a word without dashes for an argument.
        assert not line or re.fullmatch(r"#.*|--[a-z_0-9]+(=[^#]*[^#\s])?", line), line
    names = [line.split("=")[0].removeprefix("--") for line in lines(path) if line.startswith("--")]
    assert len(names) == len(set(names)), "a flag is set twice"
    known = {field.name for _, field in leaves(task_of(path).config) if field.metadata["flag"]} | {"preset"}
    assert {name for name in names if name not in known and name.removeprefix("no") not in known} == set()


@pytest.mark.parametrize("path", FILES)
def test_the_header_gives_the_command_and_marked_expectations(path):
    (_, cost, text), task = header(path), task_of(path)
    commands = re.findall(r"python -m \S+ .*", text)
    assert commands, "the header gives no command"
    for command in commands:
        is_export = command.startswith("python -m export ")
        assert is_export or command.startswith(f"python -m {task.module} --flagfile={path} "), command
        cli.parse(ExportConfig if is_export else task.config, command.split()[3:])
    assert cost
    expected = text.partition("Expected:")[2]
    assert re.search(r"\bpaper:|\bmeasured:|\bnot measured here\b", expected), "a figure is the paper's or measured"


@pytest.mark.parametrize("path", FILES)
def test_runs_are_named_by_data_encoder_and_task(path):
    """runs/DATA/ENCODER/TASK: what stands on an encoder has its name, and efficient its fraction of the labels."""
    folder = pathlib.Path(path).parent.name
    data = "photos" if folder == "ablation" else folder.removesuffix("_ladder")
    for place in re.findall(r"runs/\S+", header(path).text):
        assert re.fullmatch(r"runs/\w+/\w+/(pretrain|hub|linear|efficient_[\d.]+|detect)", place), place
    for task, command in re.findall(rf"python -m cpc_tf\.(\w+) (.*{path}.*)", header(path).text):
        given = flags_of(command)
        _, own, encoder_name, kind = given["workdir"].split("/")
        assert (own, kind.partition("_")[0]) == (data, task)
        encoder = given.get("encoder", "") if task != "pretrain" else ""
        name = encoder.removesuffix("/hub").rpartition("/")[2]
        if encoder == "pixels":  # learned with labels: pixels_HOW, or the network, if others are to stand on it
            assert encoder_name.startswith("pixels") or encoder_name == given.get("backbone"), command
        else:
            assert name in ("", encoder_name), command


@pytest.mark.parametrize("path", FILES)
def test_the_header_gives_the_export_before_a_classifier(path):
    """An encoder on disk is the --output of an export in the same header, of a run that a preset's command makes."""
    text = header(path).text
    made = re.findall(
        r"python -m cpc_tf.(?:pretrain|efficient) --flagfile=(\S+) .*--workdir=(\S+)",
        "\n".join(header(file).text for file in FILES),
    )
    exports = dict(re.findall(r"python -m export --workdir=(\S+) (?:--part=encoder )?--output=(\S+)", text))
    for encoder in re.findall(r"--(?:initial_)?encoder=(runs/\S+)", text):
        assert encoder in exports.values(), f"no export to {encoder}"
        presets = re.findall(r"after (flags/\S+\.flags)", text)
        assert presets, "which preset makes the run that is exported?"
        for preset in presets:
            assert {place for name, place in made if name == preset} & set(exports), preset


@pytest.mark.parametrize("path", WANTED)
def test_the_papers_values(path):
    found = values(parsed(path))
    assert {name: found[name] for name in WANTED[path]} == WANTED[path]
    if "pretrain" in path:  # written out: a preset must not change when a default does
        written = {line.split("=")[0].removeprefix("--") for line in lines(path)}
        constants = {field.name for _, field in leaves(PretrainConfig) if not field.metadata["flag"]}
        assert set(WANTED[path]) - constants - {"augment_changes", "train_steps", "mirror"} <= written


def test_the_papers_presets_do_not_mirror():
    """The paper mentions no mirroring; van den Oord et al. 2018 do, and so do the other objectives' papers."""
    mirroring = re.compile("cpc_v1|pretrain_(rotation|instance)")
    for path in FILES:
        if path.startswith(("flags/imagenet/", "flags/voc/")):
            found = values(parsed(path))
            mirrored = found.get("mirror", found.get("canvas_mirror"))
            assert mirrored == ("true" if mirroring.search(path) else "false"), path


def _changed(one, other):
    one, other = flatten(one), flatten(other)
    return {name: other[name] for name in one if one[name] != other[name]}


@pytest.mark.parametrize(("folder", "ladder"), [("ablation", LADDER), ("imagenet_ladder", IMAGENET_LADDER)])
def test_the_ladder_adds_one_change_a_rung(folder, ladder):
    rungs = {name: f"flags/{folder}/pretrain_{name}.flags" for name in ladder}
    assert {path for path in FILES if f"/{folder}/pretrain_" in path} == set(rungs.values())
    before = parsed(rungs["1_v1"])
    wanted = {"norm": "batch", "directions": 1, "augment": "v1"}
    assert {name: flatten(before)[name] for name in wanted} == wanted
    for name, changes in ladder.items():
        now = parsed(rungs[name])
        assert _changed(before, now) == changes, name
        before = now


def test_where_the_ladders_begin_and_end():
    begin = parsed("flags/imagenet_ladder/pretrain_1_v1.flags")
    on_all_rungs = {"split": "train[10000:]", "learning_rate": 0.0004, "mirror": False}  # the last two are v2's
    assert _changed(parsed("flags/imagenet/pretrain_cpc_v1.flags"), begin) == on_all_rungs
    end = parsed("flags/imagenet_ladder/pretrain_8_pa.flags")
    last = _changed(parsed("flags/imagenet/pretrain_resnet161.flags"), end)
    assert {**last, "checkpoint_every": 0} == {"split": "train[10000:]", "checkpoint_every": 0}
    length_and_probe = {"train_steps", "train_epochs", "probe_every", "probe_split"}
    ours = parsed("flags/ablation/pretrain_9_small_patches.flags")
    assert set(_changed(ours, parsed("flags/photos/pretrain.flags"))) <= length_and_probe


def test_the_ladder_is_tested_on_images_that_nothing_learned_from():
    linear, encoder = parsed("flags/imagenet_ladder/linear.flags"), parsed("flags/imagenet_ladder/pretrain_8_pa.flags")
    assert linear.data.split == encoder.data.split == "train[10000:]"
    assert linear.probe.test_split == "train[:10000]"
    assert set(_changed(parsed("flags/imagenet/linear.flags"), linear)) == {"split", "test_split"}


def test_the_release_is_the_modules_recipe_in_one_run():
    one, whole = (parsed(f"flags/imagenette/{name}.flags") for name in ("pretrain_128px_longer", "release"))
    assert _changed(one, whole) == {"train_epochs": 50 + 3 * 40, "checkpoint_every": 1000, "probe_every": 0}


def test_the_papers_grids():
    names = ("resnet161", "resnet50", "cpc_v1")
    assert [parsed(f"flags/imagenet/pretrain_{name}.flags").geometry.grid for name in names] == [6, 6, 7]


def test_the_papers_encoders():
    blocks = {name: [(s.blocks, s.bottleneck, s.width) for s in ARCHITECTURES[name].stacks] for name in ARCHITECTURES}
    assert blocks["resnet161"] == [(3, 64, 256), (4, 128, 512), (46, 512, 4096)]
    assert blocks["resnet50"] == [(3, 64, 256), (4, 128, 512), (6, 256, 1024), (3, 512, 2048)]
    assert blocks["resnet101_v1"] == [(3, 64, 256), (4, 128, 512), (23, 256, 1024)]


def test_the_defaults_are_the_papers():
    found, wanted = values(cli.parse(PretrainConfig, [])), {**PAPER, "encoder": "resnet161", "dataset": "photos"}
    assert {name: found[name] for name in wanted} == wanted


def test_the_papers_largest_run():
    """Appendix A: two of fourteen primitives, then four steps with these probabilities. It fits into its devices."""
    config = parsed("flags/imagenet/pretrain_resnet161.flags")
    policy = config.augment.policy
    assert (policy.chosen, len(policy.among)) == (2, 14)
    steps = {each.name: policy.entries[each.name] for each in policy.used if not each.primitive}
    assert steps == {"elastic": 0.2, "histogram": 0.2, "distort": 0.8, "grey": 0.25}
    assert config.numerics.precision == "bfloat16"
    assert config.encoder.recompute


if __name__ == "__main__":
    print(page(), end="")
