"""The paper from its abstract to its last appendix: each row of a table, each figure, each sentence
with a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from studies.paper import figures as paper

HERE = "run in small"
RUNS = "runs, not measured"
NOT = "not possible"
INSTEAD = "another method in its place"
STATES = (HERE, RUNS, INSTEAD, NOT)


class Row(NamedTuple):
    """A row, a figure or a sentence.

    Attributes:
      text: its name, or what it says.
      figures: the paper's.
      chains: keys of `chains.CHAINS` that lead to its figures.
      state: HERE: measured on small data, `why` says where; RUNS: the commands exist, the figure
        was not measured, and `why` says what of them differs from the row; INSTEAD: so it is, but
        they train something else than the row, `why` says what; NOT: `why` says why.
      why: see `state`.
      holds: the settings that are meant: a preset, then name=value.
    """

    text: str
    figures: str
    chains: tuple[str, ...]
    state: str
    why: str = ""
    holds: str = ""


class State(NamedTuple):
    """What `_table` needs to know of a line besides the paper's figures."""

    state: str
    why: str
    chains: tuple[str, ...] = ()


OTHERS = State(NOT, "another method, quoted by the paper; no code of it here")
_CURVE = "[label curve](results.md#does-cpc-need-fewer-labels)"
_GAIN = "[gain](results.md#does-cpc-need-fewer-labels)"
_LADDER = "[ladder](results.md#what-of-figure-3-holds-in-small)"
_DETECTION = "[detection](results.md#does-it-transfer-to-detection)"
_PRETRAIN = "imagenet/pretrain_resnet161"
_BOTH = ("efficient", "pixels")
_V1_V2 = ("linear_v1", "linear")
_161 = ("linear",)
_CPC33 = ("efficient",)
_PIXELS = ("pixels",)
_PARTS = " / ".join(f"{100 * part:g}" for part in paper.FRACTIONS)
_BASELINE = State(HERE, _CURVE, ("pixels",))
_CPC = State(HERE, _CURVE, ("efficient",))
_PROPAGATION = (
    "its authors' values; what is ours: [decisions](decisions.md#label-propagation) and"
    " [below](#cost-and-what-is-ours)"
)
_IN_LADDER = f"in small by another protocol: {_LADDER}"
# What differs from the row, beside its figure. "Pre-trained" is of other works' objectives.
_ADAM = "pre-trained by Adam in place of SGD"
_COLOURS = f"{_ADAM}, with colours of other magnitudes"
_LINEAR = "then App. B's classifier, by Adam, on mirrored crops of one size"
_FINE_TUNED = "then App. C's two phases and their search, with a linear layer"
_C4 = "then our schedule of detection, in two phases"
_ROTATION = (
    "its objective on ResNet-50 of 24 M parameters; the row's network, of Kolesnikov et al. 2019,"
    " has 86 M"
)
_BANK_ANEW = "the bank begins anew after the first ten epochs"
_CELLS = "cells of 75 px in place of 64"
_LAYER_NORM = "layer norm in place of batch norm among shuffled images"
_AMDIM = State(
    NOT,
    "its objective is here, `--objective=amdim`, its network of 626 M parameters is not; its"
    " weights are published for PyTorch, and as a SavedModel they would run with `--signature`",
)
_THREE_TASKS = "three of its four tasks, since motion segmentation needs videos, with equal weights"
_DOWNLOAD = "needs its module from TF-Hub"
_SMALL = "[linear](../studies/release/README.md#linear)"


def _table(groups: Mapping[str, Sequence[tuple]], known: Mapping[str | tuple, State]) -> list[Row]:
    """A row for each line of one of the paper's tables; lines that are not `known` are other
    papers' methods.

    Lines are known by their name or, where several have it, by name and millions of parameters.
    """
    lines = [line for lines in groups.values() for line in lines]
    keys = [line[:2] if line[:2] in known else line[0] for line in lines]
    if unknown := known.keys() - {*keys}:
        raise ValueError(f"no such lines in the table: {', '.join(map(str, unknown))}")
    return [
        _row(name, figures, known.get(key, OTHERS)) for key, (name, *figures) in zip(keys, lines)
    ]


def _row(name: str, figures: Sequence, of: State) -> Row:
    shown = " / ".join("-" if figure is None else str(figure) for figure in figures)
    return Row(name, shown, of.chains, of.state, of.why)


def _table_2() -> list[Row]:
    """Two rows and the gain for each metric."""
    known = {paper.PIXELS: _BASELINE, paper.CPC: _CPC}
    rows = []
    for metric, title in (("top1", "top-1"), ("top5", "top-5")):
        rows += [
            _row(f"{name}, {title}", figures, known[name])
            for name, figures in paper.TABLE_2[metric].items()
        ]
        rows.append(
            _row(f"Gain in data-efficiency, {title}", paper.GAIN[metric], State(HERE, _GAIN, _BOTH))
        )
    return rows


def _rungs() -> list[Row]:
    """A row for each rung of Fig. 3. In small another augmentation is in the place of PA."""
    return [
        Row(
            f"{rung}: {adds}",
            brought or "-",
            (f"rung_{rung}",),
            RUNS,
            "" if rung == "PA" else _IN_LADDER,
        )
        for rung, (adds, brought) in paper.LADDER.items()
    ]


INTRODUCTION = [
    Row("Fewer labels than classifiers on pixels need", "2-5 times", _BOTH, HERE, _GAIN),
    Row("CPC v1 to v2, linear top-1", "48.7 to 71.5, 23 points", _V1_V2, RUNS, _IN_LADDER),
    Row(
        "1 % of the labels: top-5; above pixels; above Zhai et al. 2019",
        "78; 34; 20",
        _BOTH,
        HERE,
        f"{_CURVE}; Zhai et al. is not",
    ),
    Row("All labels: top-1 above pixels", "3.2", _BOTH, HERE, _CURVE),
    Row(
        "Part of the labels that matches pixels with all; 1 % matches",
        "half; 5 times as many",
        _BOTH,
        HERE,
        _GAIN,
    ),
    Row(
        "VOC 2007, mAP; above supervised pre-training",
        "76.6; 2",
        ("detect", "detect_supervised"),
        HERE,
        _DETECTION,
    ),
    Row(
        "Fig. 1: accuracy over labels; the report draws it as figure 1",
        "Table 2's",
        _BOTH,
        HERE,
        _CURVE,
    ),
]
SETUP = [
    Row("Fig. 2: the framework", "a drawing", (), HERE, "[drawn anew](images/method.png)"),
    Row("Negatives: other locations in the image and other images in the mini-batch", "-", _161, RUNS,
        "ours: of the images of a group, of which a mini-batch has 32", f"{_PRETRAIN} negative_images=16"),
    Row("Unlabelled data: all training images of ImageNet", "1 set", _161, RUNS,
        holds=f"{_PRETRAIN} dataset=imagenet2012 split=train"),
    Row("Linear: augmented as in pre-training; at the test not at all, one crop", "1 crop", _161, RUNS,
        holds="imagenet/linear geometry_from=encoder test_split=validation"),
    Row("Efficient: blocks, channels of maps and bottlenecks", "11; 4096; 1024", _CPC33, RUNS,
        holds="imagenet/efficient head_blocks=11 head_width=4096"),
    Row("Efficient: parts of the labels, %", _PARTS, _BOTH, RUNS),
    Row("Efficient and transfer: then fine-tuned, at a smaller rate with early stopping", "2 phases",
        ("efficient", "detect"), RUNS, holds="voc/detect encoder_rate_factor=0.1 held_out=0.1"),
    Row("Transfer: labelled images; colour dropping, scales of Doersch et al. 2015", "5011", ("detect",), RUNS,
        holds="voc/detect dataset=voc/2007 split=train+validation smallest_area=150000 largest_area=450000"),
]  # fmt: skip
LADDER = [
    Row("ResNet-101's third stack becomes ResNet-161's: blocks; channels; bottleneck",
        "23 to 46; 1024 to 4096; 256 to 512", _V1_V2, RUNS, holds=f"{_PRETRAIN} encoder=resnet161"),
    Row("Larger patches, px", "64 to 80", _V1_V2, RUNS, holds=f"{_PRETRAIN} patch_size=80"),
    Row("Colour dropping: channels that are dropped", "2 of 3", ("rung_RC",), RUNS,
        holds="imagenet_ladder/pretrain_5_rc augment=colour_drop"),
    Row("Third-party networks: BigBiGAN; CMC; Momentum Contrast", "RevNet-50 x4; ResNet-50 x2; x4",
        ("linear_bigbigan", "linear_cmc", "linear_moco_x4"), RUNS, "BigBiGAN's own module, from TF-Hub"),
    Row("Directions of prediction", "4", _161, RUNS, holds=f"{_PRETRAIN} directions=4"),
    Row("Linear top-1: CPC v2; CPC v1; CPC v2 with ResNet-50", "71.5; 48.7; 63.8", ("linear", "linear_v1", "linear_50"),
        RUNS),
]  # fmt: skip
TABLE_1 = _table(
    paper.TABLE_1,
    {
        "CPC v2 - ResNet-50": State(RUNS, "", ("linear_50",)),
        "CPC v1": State(
            RUNS,
            "predictions and targets of 64 dimensions in place of a full matrix",
            ("linear_v1",),
        ),
        "CPC v2 - ResNet-161": State(RUNS, f"in small: {_SMALL}", ("linear",)),
        "Instance Discr.": State(RUNS, f"{_COLOURS}; {_LINEAR}", ("linear_instance_bank",)),
        "Local Aggr.": State(
            RUNS, f"{_COLOURS}; {_BANK_ANEW}; {_LINEAR}", ("linear_local_aggregation",)
        ),
        ("MoCo", 24): State(RUNS, f"{_COLOURS}; {_LAYER_NORM}; {_LINEAR}", ("linear_moco",)),
        ("MoCo", 375): State(RUNS, f"{_COLOURS}; {_LAYER_NORM}; {_LINEAR}", ("linear_moco_x4",)),
        "PIRL": State(RUNS, f"{_COLOURS}; {_CELLS}; {_LINEAR}", ("linear_pirl",)),
        "CMC": State(RUNS, f"{_COLOURS}; {_LINEAR}", ("linear_cmc",)),
        "Multi-task": State(INSTEAD, f"{_THREE_TASKS}; {_ADAM}; {_LINEAR}", ("linear_multi_task",)),
        "Rotation": State(INSTEAD, _ROTATION, ("linear_rotation",)),
        "BigBiGAN": State(RUNS, _DOWNLOAD, ("linear_bigbigan",)),
        "AMDIM": _AMDIM,
    },
)
EFFICIENT = [
    Row("Baselines: depths compared; the best", "50, 101, 152, 200; 200", _PIXELS, RUNS,
        holds="imagenet/efficient_pixels backbone=resnet200_v2,resnet50_v2,resnet101_v2,resnet152_v2"),
    Row("Baseline with 1 % and all labels, top-5", "44.1; 95.2", _PIXELS, HERE, _CURVE),
    Row("The classifier's input: a grid of latents", "14x14", _CPC33, RUNS,
        holds="imagenet/efficient image_size=224 endpoint=feature_map"),
    Row("1 % of the labels, top-5; above pixels; relative", "78.3; 34; 77 %", _BOTH, HERE, _CURVE),
    Row("All labels, top-1 / top-5: CPC; pixels", "83.4 / 96.5; 80.2 / 95.2", _BOTH, HERE, _CURVE),
    Row("Published: ResNet-200 v2; with AutoAugment", "79.9 / 95.2; 80.0 / 95.0", (), NOT,
        "quoted: He et al. 2016, Cubuk et al. 2018"),
    Row("Half of the labels match pixels with all; 1 % match 5 %", "2; 5 times", _BOTH, HERE, _GAIN),
    Row("Millions of parameters: ResNet-200; ResNet-161 + ResNet-33", "60; over 500", _BOTH, RUNS,
        "the report shows those of encoder and classifier"),
    Row("ResNet-161 + ResNet-33 from labels alone, batch norm throughout, top-1 / top-5", "80.3 / 95.2",
        ("pixels_161",), RUNS, holds="imagenet/efficient_pixels_resnet161 backbone=resnet161 norm=batch"),
    Row("Rotation with 1 % of the labels, top-5", "57.5", ("rotation",), RUNS, f"{_ADAM}; {_FINE_TUNED}"),
    Row("Networks of Zhai et al. 2019: rotation; label propagation", "ResNet-152 x2; ResNet-50 x4",
        ("rotation", "rotation_vat"), RUNS, "what they learn: [table 3](#table-3)"),
    Row("1 % of the labels, top-5: fixed; fine-tuned", "77.1; 78.3", _CPC33, HERE, _CURVE),
    Row("1 % of the labels, top-5: BigBiGAN", "55.2", ("efficient_bigbigan",), RUNS, _DOWNLOAD),
    Row("1 % of the labels, top-5: AMDIM", "67.4", (), *_AMDIM[:2]),
]  # fmt: skip
TABLE_2 = _table_2()
TABLE_3 = _table(
    paper.TABLE_3,
    {
        "Supervised baseline": _BASELINE,
        "CPC v2 (fixed)": _CPC,
        "CPC v2 (fine-tuned)": _CPC,
        "Pseudolabeling": State(RUNS, _PROPAGATION, ("pseudo_labels",)),
        "VAT + Entropy Min.": State(RUNS, _PROPAGATION, ("vat",)),
        "Unsup. Data Aug.": State(RUNS, _PROPAGATION, ("uda",)),
        "Rot. + VAT + Ent. Min.": State(
            INSTEAD,
            "VAT on a module of rotation. Zhai et al. 2019 train rotation, classes and VAT"
            " together, label all images and train anew, and fine-tune; sums here are of objectives"
            " without labels",
            ("rotation_vat",),
        ),
        "Instance Discr.": State(RUNS, f"{_COLOURS}; {_FINE_TUNED}", ("instance_bank",)),
        "PIRL": State(RUNS, f"{_COLOURS}; {_CELLS}; {_FINE_TUNED}", ("pirl",)),
        "Rotation": State(RUNS, f"{_ADAM}; {_FINE_TUNED}", ("rotation",)),
        "BigBiGAN (fixed)": State(
            RUNS, f"on the map before pooling; {_DOWNLOAD}", ("efficient_bigbigan",)
        ),
        "AMDIM (fixed)": _AMDIM,
    },
)
TRANSFER = [
    Row(
        "Labelled images of VOC 2007",
        "5011",
        ("detect",),
        RUNS,
        holds="voc/detect split=train+validation",
    ),
    Row(
        "mAP: supervised ResNet-152; CPC",
        "74.7; 76.6",
        ("detect_supervised", "detect"),
        HERE,
        _DETECTION,
    ),
    Row("mAP of Momentum Contrast", "74.9", (), NOT, "quoted: He et al. 2019"),
]
_WITH_MAP = {heading: [line[:3] for line in lines] for heading, lines in paper.TABLE_4.items()}
TABLE_4 = _table(
    _WITH_MAP,
    {
        "Supervised baseline": State(
            RUNS,
            "in small: [detection](results.md#does-it-transfer-to-detection)",
            ("detect_supervised",),
        ),
        "Instance Discr.": State(RUNS, f"{_COLOURS}; {_C4}", ("detect_instance_bank",)),
        "Local Aggregation": State(
            RUNS, f"{_COLOURS}; {_BANK_ANEW}; {_C4}", ("detect_local_aggregation",)
        ),
        "PIRL": State(RUNS, f"{_COLOURS}; {_CELLS}; {_C4}", ("detect_pirl",)),
        "Momentum Contrast": State(RUNS, f"{_COLOURS}; {_LAYER_NORM}; {_C4}", ("detect_moco",)),
        "Exemplar": State(RUNS, f"{_COLOURS}; {_C4}", ("detect_exemplar",)),
        "Colorization": State(RUNS, f"{_ADAM}; {_C4}", ("detect_colorization",)),
        "Multi-task": State(INSTEAD, f"{_THREE_TASKS}; {_ADAM}; {_C4}", ("detect_multi_task",)),
        "Deep Cluster": State(
            NOT, "its objective is here, `--objective=deep_cluster`; VGG-16 and Fast R-CNN are not"
        ),
        "Deeper Cluster": State(NOT, "other features and data; VGG-16 and Fast R-CNN are not here"),
        "Motion Segm.": State(NOT, "it learns from videos"),
        "Relative Pos.": State(
            RUNS,
            f"{_ADAM}; all neighbours of the middle patch of a grid, with a head for pairs; {_C4}",
            ("detect_relative_position",),
        ),
        "CPC v2": State(HERE, _DETECTION, ("detect",)),
    },
)
APPENDIX_A = [
    Row("Patches, stride and crop, px; grid", "80; 36; 260; 6x6", _161, RUNS,
        holds=f"{_PRETRAIN} patch_size=80 patch_stride=36 image_size=260"),
    Row("Latents of an image", "[6, 6, 4096]", _161, RUNS, holds=f"{_PRETRAIN} encoder=resnet161 output_stack=0"),
    Row("Listing of the context network: blocks; channels", "5; 256", _161, RUNS,
        holds=f"{_PRETRAIN} context_blocks=5 context_dim=256"),
    Row("Listing of the loss: target_dim; emb_scale; steps_to_ignore; steps_to_predict", "64; 0.1; 2; 3", _161,
        RUNS, holds=f"{_PRETRAIN} target_dim=64 emb_scale=0.1 steps_to_ignore=2 steps_to_predict=3"),
    Row("Resized to, px; crop, px", "300; 260", _161, RUNS, holds=f"{_PRETRAIN} resize=300 image_size=260"),
    Row("Steps 1 to 4: AutoAugment's; elastic, histogram; Inception colour; grey", "2; 0.2, 0.2; 0.8; 0.25", _161,
        RUNS, holds=f"{_PRETRAIN} augment=full"),
    Row("Adam: epochs; rate; beta1, beta2; epsilon", "200; 0.0004; 0.8, 0.999; 1e-8", _161, RUNS,
        holds=f"{_PRETRAIN} train_epochs=200.0 learning_rate=0.0004 beta1=0.8 beta2=0.999 epsilon=1e-08"),
    Row("Polyak averaging; largest norm of the gradient", "0.9999; 0.01", _161, RUNS,
        holds=f"{_PRETRAIN} average_decay=0.9999 clip_norm=0.01"),
    Row("Batch; workers", "512; 32", _161, RUNS, "on how many devices does not change the result",
        f"{_PRETRAIN} batch_size=512 negative_images=16"),
]  # fmt: skip
APPENDIX_B = [
    Row("Grid of features; classes; batch norm without scale, 1x1 convolution, mean of the logits", "6x6 of 4096; 1000",
        _161, RUNS, holds="imagenet/linear geometry_from=encoder augment=encoder"),
    Row("Adam: rate; batch; workers", "0.0005; 512; 16", _161, RUNS,
        holds="imagenet/linear learning_rate=0.0005 batch_size=512"),
]  # fmt: skip
APPENDIX_C = [
    Row("C.1, networks: ResNet v2, dropout before the last layer", "50, 101, 152, 200", _PIXELS, RUNS,
        holds="imagenet/efficient_pixels backbone=resnet200_v2,resnet50_v2,resnet101_v2,resnet152_v2"),
    Row("C.1, images: random crops as Szegedy et al. 2014, then steps 1 to 4", "4 steps", _PIXELS, RUNS,
        holds="imagenet/efficient_pixels crop_area=0.08 augment=full"),
    Row("C.1, search: rates; weight decays; dropout; batch of a worker", "0.05, 0.1, 0.2; 1e-5 to 1e-2; 0 to 1; 16, 32",
        _PIXELS, RUNS, "ours: 32 workers, as in pre-training", "imagenet/efficient_pixels "
        "search_rates=0.05,0.1,0.2 search_decays=1e-5,1e-2 search_dropouts=0,1 batch_size=512 search_multiples=1,2"),
    Row("C.1, images held out to choose", "about 10k", _PIXELS, RUNS,
        "beside the labels of each fraction; the stricter rule: `--validation_split=`",
        "imagenet/efficient_pixels validation_split=train[:10000]"),
    Row("C.2, network: grid; blocks; hidden layers; bottlenecks", "14x14; 11; 4096; 1024", _CPC33, RUNS,
        holds="imagenet/efficient head_blocks=11 head_width=4096"),
    Row("C.2, training: fixed features till convergence, then all: SGD and Adam", "2 phases", _CPC33, RUNS,
        holds="imagenet/efficient patience=5 rate_drops=3 encoder_adam=paper finetune_look_steps=1"),
]  # fmt: skip


class Section(NamedTuple):
    """A part of the paper: its title, what the figures of its rows are, and the rows."""

    title: str
    figures: str
    rows: Sequence[Row]


# In the paper's order.
SECTIONS = (
    Section("Abstract and introduction", "figures", INTRODUCTION),
    Section("2 Experimental setup", "figures", SETUP),
    Section("4.1 From CPC v1 to CPC v2", "figures", LADDER),
    Section("Figure 3", "what section 4.1 says it brought", _rungs()),
    Section("Table 1", "M parameters / top-1 / top-5", TABLE_1),
    Section("4.2 Efficient image classification", "figures", EFFICIENT),
    Section("Table 2", f"accuracy at {_PARTS} % of the labels", TABLE_2),
    Section("Table 3", "top-5 at 1 / 10 / 100 % of the labels", TABLE_3),
    Section("4.3 Transfer learning", "figures", TRANSFER),
    Section("Table 4", "architecture / mAP", TABLE_4),
    Section("Appendix A", "figures", APPENDIX_A),
    Section("Appendix B", "figures", APPENDIX_B),
    Section("Appendix C", "figures", APPENDIX_C),
)
