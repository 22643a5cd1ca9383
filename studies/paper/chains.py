"""The ways from data to a figure: presets in order, whose headers have the commands and the
cost.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cpc_tf.core import cli
from studies.paper import figures as paper

COMMAND = re.compile(r"cpc-tf .*")


class Chain(NamedTuple):
    """A way from data to a figure.

    Attributes:
      title: a heading of the page.
      steps: a preset each. Behind its name '--flag=value' sets a flag of its command, and any other
        word chooses the commands of its header that have it.
      runs: the folder that the report reads.
      fractions: of the labels, a run each; the header's command has the first.
    """

    title: str
    steps: tuple[str, ...]
    runs: str = "runs/imagenet"
    fractions: tuple[float, ...] = ()

    @property
    def presets(self) -> list[str]:
        """The names of the presets, in order."""
        return [step.split()[0] for step in self.steps]

    @property
    def commands(self) -> list[str]:
        """The commands, each once, in order; the report is the last."""
        found: list[str] = []
        for step in self.steps:
            name, *words = step.split()
            wanted = [word for word in words if not word.startswith("--")]
            lines = [
                " ".join(line.split()) for line in COMMAND.findall(cli.preset_header(name).text)
            ]
            lines = [line for line in lines if all(word in line for word in wanted)]
            if not lines:
                raise ValueError(f"{step}: no command of this preset's header has these words")
            settings = [word for word in words if word not in wanted]
            found += [_on(found, _with(settings, line) if name in line else line) for line in lines]
        return [
            *dict.fromkeys(found),
            f"cpc-tf report --runs={self.runs} --output={self.runs}/report",
        ]


def _with(settings: list[str], command: str) -> str:
    """A command with these flags in place of its own."""
    names = tuple(f"{setting.partition('=')[0]}=" for setting in settings)
    return " ".join([*(word for word in command.split() if not word.startswith(names)), *settings])


def _on(before: list[str], command: str) -> str:
    """A command on the encoder that the commands before it trained last, where its header names
    another one's.
    """
    trained = re.findall(r"--workdir=runs/\w+/(\w+)/pretrain", " ".join(before))
    named = re.search(r"--(?:encoder|output)=runs/\w+/(\w+)/hub", command)
    return command.replace(f"/{named[1]}/", f"/{trained[-1]}/") if trained and named else command


_161 = "imagenet/pretrain_resnet161"
_LINEAR = "imagenet/linear"
_EFFICIENT = "imagenet/efficient"
# Of the rotation rows of table 3, and of the label propagation beside them: Zhai et al. 2019.
_ROTATION = (
    "imagenet/pretrain_rotation --encoder=resnet152_x2"
    " --workdir=runs/imagenet/rotation_resnet152_x2/pretrain"
)
_ROTATION_VAT = (
    "imagenet/pretrain_rotation --encoder=resnet50_x4"
    " --workdir=runs/imagenet/rotation_resnet50_x4/pretrain"
)
_ON_ROTATION = (
    # Weights and norm of Zhai et al.'s config/moam_step_1.sh.
    "imagenet/efficient --label_fraction=0.1 --head_blocks=0 --augment=none --propagation=vat"
    " --vat_radius=0.0412 --vat_weight=0.3 --entropy_weight=0.3"
    " --workdir=runs/imagenet/rotation_vat/efficient_0.1"
)
# Other works fine-tune the network itself with a linear layer behind it, on crops and mirrored
# ones.
_FINE_TUNED = f"{_EFFICIENT} --head_blocks=0 --augment=none"
# They learn linear classifiers on mirrored images in their own colours.
_MIRRORED = f"{_LINEAR} --mirror --augment=none"
_WHOLE = (
    "--geometry_from=flags --resize=256 --resize_mode=crop --image_size=224 --patch_size=224"
    " --patch_stride=224"
)
_MOCO_X4 = "imagenet/pretrain_moco --encoder=resnet50_x4 --workdir=runs/imagenet/moco_x4/pretrain"
# The C4 recipe of other works: regions are pooled from the third stack, and the trained fourth one
# is their head.
_C4 = "voc/detect --backbone_endpoint=stack3 --backbone_norm=layer --region_head=encoder"
# Objective -> its title, of tables 1 and 4; and what table 4 alone has, on the first three stacks
# of a ResNet-101.
_RIVALS = {
    "instance_bank": "instance discrimination",
    "local_aggregation": "local aggregation",
    "moco": "MoCo",
    "pirl": "PIRL",
    "cmc": "CMC",
}.items()
_OF_TABLE_4 = {
    "relative_position": "relative position",
    "exemplar": "exemplar",
    "colorization": "colorization",
    "multi_task": "multi-task",
}.items()
_RUNGS = {f"rung_{rung}": f"{number}_{rung.lower()}" for number, rung in enumerate(paper.LADDER, 1)}

# Key -> chain, in the order of the page.
CHAINS = {
    "linear": Chain("Linear, ResNet-161", (_161, _LINEAR)),
    "linear_50": Chain("Linear, ResNet-50", ("imagenet/pretrain_resnet50", _LINEAR)),
    "linear_v1": Chain("Linear, CPC v1", ("imagenet/pretrain_cpc_v1", "imagenet/linear_cpc_v1")),
    "linear_rotation": Chain("Linear, rotation", ("imagenet/pretrain_rotation", _MIRRORED)),
    **{
        f"linear_{name}": Chain(f"Linear, {title}", (f"imagenet/pretrain_{name}", _MIRRORED))
        for name, title in _RIVALS
    },
    "linear_moco_x4": Chain("Linear, MoCo with ResNet-50 x4", (_MOCO_X4, _MIRRORED)),
    "linear_multi_task": Chain(
        "Linear, multi-task", ("imagenet/pretrain_multi_task", f"{_MIRRORED} {_WHOLE}")
    ),
    **{
        key: Chain(
            f"Fig. 3, {name}", (f"imagenet_ladder/pretrain_{name}", "imagenet_ladder/linear")
        )
        for key, name in _RUNGS.items()
    },
    "efficient": Chain("Few labels, CPC", (_161, _EFFICIENT), fractions=paper.FRACTIONS),
    "pixels": Chain(
        "Few labels, pixels",
        ("imagenet/efficient_pixels imagenet/pixels/",),
        fractions=paper.FRACTIONS,
    ),
    "rotation": Chain("Few labels, rotation", (_ROTATION, _FINE_TUNED), fractions=(0.01, 0.1)),
    **{
        name: Chain(
            f"Few labels, {title}",
            (f"imagenet/pretrain_{name}", _FINE_TUNED),
            fractions=(0.01, 0.1),
        )
        for name, title in _RIVALS
        if name in ("instance_bank", "pirl")
    },
    "pseudo_labels": Chain("Pseudo-labels", ("imagenet/efficient_pseudo_labels",)),
    "vat": Chain("VAT", ("imagenet/efficient_vat",)),
    "uda": Chain("UDA", ("imagenet/efficient_uda",)),
    "rotation_vat": Chain("Rotation and VAT", (_ROTATION_VAT, _ON_ROTATION), fractions=(0.1, 1.0)),
    "pixels_161": Chain(
        "All labels, ResNet-161 + ResNet-33", ("imagenet/efficient_pixels_resnet161",)
    ),
    "linear_bigbigan": Chain("Linear, BigBiGAN", ("imagenet/linear_bigbigan",)),
    "efficient_bigbigan": Chain(
        "Few labels, BigBiGAN", ("imagenet/efficient_bigbigan",), fractions=paper.TABLE_3_FRACTIONS
    ),
    "detect": Chain("Detection, CPC", (_161, "voc/detect"), runs="runs/voc"),
    **{
        f"detect_{name}": Chain(
            f"Detection, {title}", (f"imagenet/pretrain_{name}", _C4), runs="runs/voc"
        )
        for name, title in _RIVALS
        if name != "cmc"
    },
    **{
        f"detect_{name}": Chain(
            f"Detection, {title}", (f"imagenet/pretrain_{name}", "voc/detect"), runs="runs/voc"
        )
        for name, title in _OF_TABLE_4
    },
    "detect_supervised": Chain(
        "Detection, supervised",
        ("imagenet/efficient_pixels resnet152_v2", "voc/detect_supervised"),
        runs="runs/voc",
    ),
}

# What of a rung of Fig. 3 is ours.
_OF_RUNGS = {
    "rung_v1": (
        "no norm before LN ([decisions](decisions.md#cpc-v1)); a warm-up until then; the custom "
        "validation set; v2's rate and no mirroring on all rungs"
    ),
    "rung_RC": (
        "as the rung before; from here on to LP the test shows one channel at a time, as the"
        " encoders saw images, with colour beside it; that of PA is in colour"
    ),
    "rung_LP": "as the rung before; with the patches the offsets become v2's",
    "rung_PA": (
        "as the rung before; instead of colour dropping and jitter, which appendix A does not list"
    ),
}

# Preset -> what of it is ours, since the paper does not say; with the place where the reasons are.
OURS = {
    _161: (
        "order within a block, mean over predictions, negatives of 16 images, magnitudes of elastic"
        " deformation and histogram ([decisions](decisions.md#context-and-objective)); bfloat16 and"
        " recomputation"
    ),
    "imagenet/pretrain_resnet50": (
        "as with ResNet-161; layer norm and optimizer, of which the paper gives no others"
    ),
    "imagenet/pretrain_cpc_v1": (
        "no prediction of the next row ([decisions](decisions.md#cpc-v1)); predictions and targets"
        " of 64 dimensions, where v1's equation 3 has a full matrix; what v1 leaves open is as"
        " in v2"
    ),
    _LINEAR: "90 epochs ([decisions](decisions.md#linear-protocol))",
    "imagenet/linear_cpc_v1": (
        "the test is grey ([decisions](decisions.md#patch-augmentation)); the rest is v1's"
    ),
    "imagenet/pretrain_rotation": "all but the objective",
    "imagenet/pretrain_instance_bank": (
        "optimizer, batch, magnitudes of colours; the weight of the proximal term"
    ),
    "imagenet/pretrain_local_aggregation": (
        "optimizer, batch, magnitudes of colours; the bank begins anew after the "
        "first ten epochs; the image itself is always close"
    ),
    "imagenet/pretrain_moco": (
        "optimizer, magnitudes of colours; layer norm, which needs no shuffling, in place of "
        "batch norm"
    ),
    "imagenet/pretrain_pirl": (
        "optimizer, batch, magnitudes of colours; cells of 75 px, of which its authors cut 64"
    ),
    "imagenet/pretrain_cmc": "optimizer, batch, magnitudes of colours",
    "imagenet/pretrain_multi_task": (
        "three of four tasks, equal weights, one output for all; optimizer, batch, length"
    ),
    "imagenet/pretrain_exemplar": "optimizer, batch, length, augmentation",
    "imagenet/pretrain_colorization": "optimizer, batch, length; the grid of the prediction",
    "imagenet/pretrain_relative_position": (
        "optimizer, batch, length, the distortion of patches, a head for pairs"
    ),
    **{
        f"imagenet_ladder/pretrain_{name}": _OF_RUNGS.get(key, "as the rung before")
        for key, name in _RUNGS.items()
    },
    "imagenet_ladder/linear": (
        "which images are the custom validation set: the first 10,000 of train"
    ),
    _EFFICIENT: (
        "which labels, mirroring, momentum and schedule of SGD, number of trials, the rule of"
        " convergence, rates of fine-tuning, the shape of tests"
        " ([decisions](decisions.md#few-labels))"
    ),
    "imagenet/efficient_pixels": "as with CPC; 24 trials over four depths",
    "imagenet/efficient_pixels_resnet161": "as with CPC",
    "imagenet/efficient_pseudo_labels": (
        "images with labels keep them; with 1 % no noise of hue, saturation and "
        "value in the first training"
    ),
    "imagenet/efficient_vat": (
        "images with labels are disturbed only among all others; batch norm of images with and"
        " without labels apart, its running statistics of those with labels; the divergence of the"
        " disturbed prediction from the clean one; 1 %"
    ),
    "imagenet/efficient_uda": "the paper's own augmentation; where the rate drops",
    "imagenet/linear_bigbigan": "images, output of the module",
    "imagenet/efficient_bigbigan": "which map: that from which the module pools its output",
    "voc/detect": (
        "all but the architecture, the data, colour dropping, scales and two phases: the public C4"
        " recipe; lengths and rates of the phases ([decisions](decisions.md#detection))"
    ),
    "voc/detect_supervised": "as with CPC; the trained fourth stack is the regions' head",
}
