"""Every flag file parses, its header's commands can be run in their order, and the paper's presets
hold its values.
"""

import functools
import pathlib
import re

import pytest

from cpc_tf.core import cli
from cpc_tf.core.commands import TASKS
from cpc_tf.core.settings import flatten, to_flagfile
from cpc_tf.encoders.networks.resnet import ARCHITECTURES
from cpc_tf.export.config import ExportConfig
from cpc_tf.pretrain.config import PretrainConfig
from tests.binaries import ROOT
from website import presets

FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("flags/*/*") if path.is_file())


def flags(text):
    """{name: value} of flags as text."""
    return dict(line.removeprefix("--").split("=", 1) for line in text.split())


# Appendix A, and Sec. 4.1 where it says more.
PAPER = flags("""
    --dataset=imagenet2012 --split=train --resize=300 --image_size=260 --patch_size=80 --patch_stride=36
    --augment=full --augment_changes= --mirror=false --norm=layer --output_stack=0 --directions=4
    --steps_to_ignore=2 --steps_to_predict=3 --target_dim=64 --emb_scale=0.1 --context_blocks=5 --context_dim=256
    --learning_rate=0.0004 --schedule=constant --warmup_steps=0 --beta1=0.8 --beta2=0.999 --epsilon=1e-08
    --clip_norm=0.01 --average_decay=0.9999 --batch_size=512 --train_epochs=200.0 --train_steps=0
""")
# Van den Oord et al. 2018, Sec. 3.2.
CPC_V1 = flags("""
    --image_size=256 --patch_size=64 --patch_stride=32 --mirror=true --augment=v1 --encoder=resnet101_v1 --norm=none
    --directions=1 --steps_to_ignore=1 --steps_to_predict=5 --learning_rate=0.0002
""")
# Appendix B.
LINEAR = flags("""
    --dataset=imagenet2012 --split=train --test_split=validation --geometry_from=encoder --augment=encoder
    --mirror=false --learning_rate=0.0005 --batch_size=512 --cached_views=0
""")
# Van den Oord et al. 2018, Sec. 3.2: "a learning rate schedule of 0.1, 0.01 and 0.001 for 50k, 25k
# and 10k updates".
LINEAR_V1 = flags("""
    --mirror=true --latent_norm=false --optimizer=sgd --learning_rate=0.1 --drop_steps=50000,75000 --batch_size=2048
    --train_steps=85000
""")
# Appendix C.
EFFICIENT = flags("""
    --dataset=imagenet2012 --image_size=224 --augment=full --augment_changes= --endpoint=feature_map --head_blocks=11
    --mirror=true --head_width=4096 --search_rates=0.05,0.1,0.2 --search_decays=1e-5,1e-2 --search_dropouts=0,1
    --batch_size=512 --search_multiples=1,2 --encoder_adam=paper --validation_split=train[:10000] --resize_mode=crop
    --rate_drops=3 --finetune_look_steps=1
""")
# The authors' values of what table 3 quotes, read in vat_entmin.sh, pseudo_labels.sh and
# supervised_imagenet_10p.sh of github.com/google-research/s4l (Zhai et al. 2019) and in appendix
# E.3 of Xie et al. 2019.
QUOTED = flags("""
    --encoder= --mirror=true --backbone=resnet50_v2 --norm=batch --head_blocks=0 --dropout=0.0 --search_trials=1
    --patience=0 --resize=256 --resize_mode=crop --image_size=224 --crop_area=0.08
""")
VAT = flags("""
    --propagation=vat --augment=none --batch_size=256 --learning_rate=0.03 --weight_decay=0.001 --train_epochs=200.0
    --train_steps=0 --drops_at=0.7,0.8,0.9 --warmup_steps=2500 --vat_weight=0.5 --entropy_weight=1.0
    --unlabelled_ratio=1
""")
UDA = flags("""
    --propagation=uda --batch_size=512 --unlabelled_ratio=30 --uda_weight=20.0 --uda_temperature=0.4
    --uda_confidence=0.5 --learning_rate=0.3 --train_steps=40000
""")
SELF_TRAINING = flags("""
    --propagation=self_training --augment=none --batch_size=256 --learning_rate=0.1 --weight_decay=0.0001
    --train_epochs=100.0 --train_steps=0 --drops_at=0.3,0.6,0.9
""")
# Appendix C.1: four depths, a linear layer behind the network's last mean.
PIXELS = flags(
    "--backbone=resnet200_v2,resnet50_v2,resnet101_v2,resnet152_v2 --norm=batch --head_blocks=0"
)
# Sec. 4.3, Doersch et al. 2015, and the public C4 recipe.
DETECT = flags("""
    --dataset=voc/2007 --split=train+validation --test_split=test --canvas_colour_drop=0.5 --canvas_mirror=true
    --smallest_area=150000 --largest_area=450000 --area_scale=1.0 --anchor_sizes=32,64,128,256,512
    --rpn_train_proposals=2000 --rpn_test_proposals=1000 --region_samples=512 --batch_size=16
    --train_steps=0 --train_epochs=36.0 --frozen_epochs=24.0 --held_out=0.1 --learning_rate=0.02
    --encoder_rate_factor=0.1 --rate_drops=0.75,0.9167 --momentum=0.9 --weight_decay=0.0001
    --warmup_steps=100
""")
# The module of tfhub.dev/deepmind/bigbigan-revnet50x4/1: its signature, its output of most
# dimensions, its images.
BIGBIGAN = flags("--signature=encode --endpoint=bn_crelu_feat --image_size=256")
WANTED = {
    "imagenet/pretrain_resnet161": {**PAPER, "encoder": "resnet161"},
    "imagenet/pretrain_resnet50": {**PAPER, "encoder": "resnet50"},
    "imagenet/pretrain_cpc_v1": {**PAPER, **CPC_V1},
    "imagenet/linear": LINEAR,
    "imagenet/linear_cpc_v1": {**LINEAR, **LINEAR_V1},
    "imagenet/efficient": EFFICIENT,
    "voc/detect": DETECT,
    "voc/detect_supervised": {**DETECT, "backbone_endpoint": "stack3", "region_head": "encoder"},
    "imagenet/efficient_pixels": {**EFFICIENT, **PIXELS},
    "imagenet/efficient_vat": {**QUOTED, **VAT},
    "imagenet/efficient_uda": {**QUOTED, **UDA},
    "imagenet/efficient_pseudo_labels": {**QUOTED, **SELF_TRAINING},
    "imagenet/efficient_pixels_resnet161": {**EFFICIENT, "backbone": "resnet161", "norm": "batch"},
    "imagenet/linear_bigbigan": {**LINEAR, **BIGBIGAN, "augment": "none", "geometry_from": "flags"},
    "imagenet/efficient_bigbigan": {
        **EFFICIENT,
        **BIGBIGAN,
        "endpoint": "before:bn_crelu_feat",
        "finetune_steps": "0",
    },
    # exp_configs/la_final.json of github.com/neuroailab/LocalAggregation, for a ResNet-50.
    "imagenet/pretrain_local_aggregation": flags(
        "--local_aggregation_clusterings=10 --local_aggregation_clusters=30000"
        " --local_aggregation_background=4096"
    ),
    # Doersch and Zisserman 2017: ResNet-101 up to its third stack.
    **{
        f"imagenet/pretrain_{name}": {"encoder": "resnet101_v1"}
        for name in ("exemplar", "relative_position")
    },
    **{
        f"imagenet/pretrain_{name}": {"encoder": "resnet101_v1_grey"}
        for name in ("colorization", "multi_task")
    },
    "imagenet/pretrain_pirl": {"train_epochs": "800.0", "pirl_negatives": "32000"},
    "ablation/pretrain_1_v1": {"norm": "batch", "directions": "1", "augment": "v1"},
    "imagenette_ladder/pretrain_1_v1": {"norm": "none", "directions": "1", "augment": "v1"},
}
# A preset, another one, and all that changes. First the rungs of Fig. 3: in small, and on ImageNet,
# where the larger patches need other offsets and --recompute changes memory alone.
LADDER = ["1_v1", "2_mc", "3_bu", "4_ln", "5_rc", "6_hp", "7_lp", "8_pa"]
SMALL_RUNGS = [
    {"encoder": "small"},
    {"directions": 2},
    {"norm": "layer"},
    {"augment": "colour_drop"},
    {"directions": 4},
    {"image_size": 64, "patch_size": 16, "patch_stride": 12},
    {"augment": "full"},
]
RUNGS = {
    "ablation": SMALL_RUNGS,
    "imagenette_ladder": SMALL_RUNGS,
    "imagenet_ladder": [
        {"encoder": "resnet161", "recompute": True},
        {"directions": 2},
        {"norm": "layer", "warmup_steps": 0},
        {"augment": "colour_drop"},
        {"directions": 4},
        {
            "image_size": 260,
            "patch_size": 80,
            "patch_stride": 36,
            "steps_to_ignore": 2,
            "steps_to_predict": 3,
        },
        {"augment": "full"},
    ],
}
STEPS = [
    (f"{folder}/pretrain_{LADDER[i]}", f"{folder}/pretrain_{LADDER[i + 1]}", changes)
    for folder, rungs in RUNGS.items()
    for i, changes in enumerate(rungs)
]
# The ladder on ImageNet is tested on images that nothing learned from.
UNSEEN = {"split": "train[10000:]"}
STEPS += [
    # ours
    (
        "ablation/pretrain_8_pa",
        "ablation/pretrain_9_small_patches",
        {"augment": "small_patches"},
    ),
    # ours: the whole ladder leads to the preset of the small encoder, for fewer epochs
    (
        "imagenette_ladder/pretrain_8_pa",
        "imagenette_ladder/pretrain_9_small_patches",
        {"augment": "small_patches"},
    ),
    (
        "imagenette/pretrain",
        "imagenette_ladder/pretrain_9_small_patches",
        {"train_epochs": 8, "probe_every": 0},
    ),
    # Rate and mirroring are v2's on all rungs; the warm-up ends with LN.
    (
        "imagenet/pretrain_cpc_v1",
        "imagenet_ladder/pretrain_1_v1",
        {**UNSEEN, "learning_rate": 0.0004, "mirror": False, "warmup_steps": 1000},
    ),
    (
        "imagenet/pretrain_resnet161",
        "imagenet_ladder/pretrain_8_pa",
        {**UNSEEN, "checkpoint_every": 5000},
    ),
    ("imagenet/linear", "imagenet_ladder/linear", {**UNSEEN, "test_split": "train[:10000]"}),
    (
        "imagenette/pretrain_128px_longer",
        "imagenette/release",
        {"train_epochs": 50 + 3 * 40, "checkpoint_every": 1000, "probe_every": 0},
    ),
    ("imagenette/release", "imagenette/release_long", {"train_epochs": 700}),
    (
        "imagenette/release",
        "openclipart/pretrain_128px",
        {"train_epochs": 60, "checkpoint_every": 500},
    ),
]


@pytest.fixture(autouse=True)
def in_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # where the commands are typed


def task_of(path):
    """The task that a flag file is for: its name begins with the task's. A release is a
    pre-training.
    """
    name = pathlib.Path(path).stem.replace("release", "pretrain")
    kinds = [kind for kind in TASKS if name == kind or name.startswith(f"{kind}_")]
    assert len(kinds) == 1, (
        f"{path}: which binary is this for? Known names begin with {', '.join(TASKS)}"
    )
    return TASKS[kinds[0]]


@functools.cache
def parsed(path):
    return cli.parse(task_of(path).config, [f"--flagfile={ROOT}/{path}"])


def preset(name):
    return parsed(f"flags/{name}.flags")


def name_of(path):
    """The name of the preset in a file."""
    return path.removeprefix("flags/").removesuffix(".flags")


@functools.cache
def header(path):
    return cli.preset_header(name_of(path))


@functools.cache
def runs():
    """(preset, folder) of every run that a header's command makes and that has an encoder."""
    pattern = r"cpc-tf (?:pretrain|efficient) --preset=(\S+) .*--workdir=(\S+)"
    return re.findall(pattern, "\n".join(header(path).text for path in FILES))


def test_the_page_lists_all_presets():
    assert presets.PAGE.read_text() == presets.page(), "run: make docs"


@pytest.mark.parametrize("path", FILES)
def test_every_line_is_a_comment_or_one_flag(path):
    assert path.endswith(".flags")
    parsed(path)
    lines = (ROOT / path).read_text().splitlines()
    for line in lines:
        # absl takes a comment behind a value for a part of it, and a word without dashes for an
        # argument.
        assert not line or re.fullmatch(r"#.*|--[a-z_0-9]+(=([^#]*[^#\s])?)?", line), line
    names = [line.split("=")[0] for line in lines if line.startswith("--")]
    assert len(names) == len(set(names)), "a flag is set twice"


@pytest.mark.parametrize("path", FILES)
def test_header_commands_run_in_their_order(path):
    """They parse, and an encoder on disk is the output of an export before, of a run that a
    preset's command makes.
    """
    (_, cost, text), task = header(path), task_of(path)
    assert cost
    commands = re.findall(r"cpc-tf \S+ .*", text)
    assert commands, "the header gives no command"
    for command in commands:
        is_export = command.startswith("cpc-tf export ")
        assert is_export or command.startswith(f"cpc-tf {task.name} --preset={name_of(path)} "), (
            command
        )
        cli.parse(ExportConfig if is_export else task.config, command.split()[2:])
    exports = dict(
        re.findall(r"cpc-tf export --workdir=(\S+) (?:--part=encoder )?--output=(\S+)", text)
    )
    for encoder in re.findall(r"--(?:initial_)?encoder=(runs/\S+)", text):
        assert encoder in exports.values(), f"no export to {encoder}"
        # The preset that makes the run that is exported; else it is one of this header's own.
        before = re.findall(r"after flags/(\S+)\.flags", text) or [name_of(path)]
        for name in before:
            assert {place for made_by, place in runs() if made_by == name} & set(exports), name


@pytest.mark.parametrize("name", WANTED)
def test_the_papers_values(name):
    found = flags(to_flagfile(preset(name)))
    assert {name: found[name] for name in WANTED[name]} == WANTED[name]


@pytest.mark.parametrize(("before", "after", "changes"), STEPS, ids=[step[1] for step in STEPS])
def test_what_changes_from_one_preset_to_another(before, after, changes):
    one, other = flatten(preset(before)), flatten(preset(after))
    assert {
        name: other[name] for name in one if one[name] != other[name] and name != "rung"
    } == changes


def test_what_the_quoted_methods_say_in_other_units():
    """VAT's norm is of all values of an image in [-1, 1]; warm-ups are five epochs; the first of
    two trainings.
    """
    radius = preset("imagenet/efficient_vat").propagation.vat_radius
    assert 2 * radius * (224 * 224 * 3) ** 0.5 == pytest.approx(40, rel=1e-3)
    assert preset("imagenet/efficient_vat").sgd.warmup_steps == 5 * 128_000 / 256
    assert preset("imagenet/efficient_uda").sgd.warmup_steps == pytest.approx(5 * 128_000 / 512)
    assert len(preset("imagenet/efficient_uda").sgd.numbers("drops_at")) == 4
    student = preset("imagenet/efficient_pseudo_labels")
    assert student.sgd.warmup_steps == pytest.approx(5 * 1_281_167 / 256, rel=0.01)
    first = flatten(student.of_teacher())
    differ = {
        "train_epochs": 200,
        "weight_decay": 1e-3,
        "drops_at": "0.7,0.8,0.9",
        "warmup_steps": 2500,
    }
    assert {
        name: first[name] for name, value in flatten(student).items() if first[name] != value
    } == {
        **differ,
        **{"workdir": "teacher", "propagation": "none", "teacher": ""},
    }


def test_the_papers_encoders():
    blocks = {
        name: [(s.blocks, s.bottleneck, s.width) for s in ARCHITECTURES[name].stacks]
        for name in ARCHITECTURES
    }
    assert blocks["resnet161"] == [(3, 64, 256), (4, 128, 512), (46, 512, 4096)]
    assert blocks["resnet50"] == [(3, 64, 256), (4, 128, 512), (6, 256, 1024), (3, 512, 2048)]
    assert blocks["resnet101_v1"] == [(3, 64, 256), (4, 128, 512), (23, 256, 1024)]


def test_the_defaults_are_the_papers():
    found = flags(to_flagfile(cli.parse(PretrainConfig, [])))
    wanted = {**PAPER, "encoder": "resnet161", "dataset": "photos"}
    assert {name: found[name] for name in wanted} == wanted


def test_the_papers_largest_run():
    """Appendix A: two of fourteen primitives, then four steps with these probabilities. It fits
    into its devices.
    """
    config = preset("imagenet/pretrain_resnet161")
    policy = config.augment.policy
    assert (policy.chosen, len(policy.among)) == (2, 14)
    steps = {each.name: policy.entries[each.name] for each in policy.used if not each.primitive}
    assert steps == {"elastic": 0.2, "histogram": 0.2, "distort": 0.8, "grey": 0.25}
    assert config.numerics.precision == "bfloat16"
    assert config.encoder.recompute
