"""The table of encoders and the sizes of the ResNets: what is known of a network before TensorFlow
is imported.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import shown


@dataclasses.dataclass(frozen=True)
class Stack:
    """Bottleneck blocks of one width; the first one has the stride."""

    blocks: int
    bottleneck: int
    width: int
    stride: int


@dataclasses.dataclass(frozen=True)
class Architecture:
    """A stem (convolution, maybe a 3x3/2 max-pool) and stacks."""

    stacks: tuple[Stack, ...]
    stem_kernel: int = 7
    stem_width: int = 64
    stem_stride: int = 2
    stem_pool: bool = True


def _resnet(*blocks: int, widening: int = 1) -> Architecture:
    """The first len(blocks) stacks of a bottleneck ResNet (He et al. 2016), each layer `widening`
    times as wide.
    """
    sizes = ((64, 256, 1), (128, 512, 2), (256, 1024, 2), (512, 2048, 2))
    stacks = (
        Stack(n, widening * inner, widening * width, s)
        for n, (inner, width, s) in zip(blocks, sizes)
    )
    return Architecture(tuple(stacks), stem_width=64 * widening)


def _base(
    width: int = 1024, stem_stride: int = 4, blocks: int = 2, widening: int = 1
) -> Architecture:
    sizes = ((16, 64, 1), (32, 128, 2), (128, width, 2))
    stacks = (Stack(blocks, widening * bottleneck, *size) for bottleneck, *size in sizes)
    return Architecture(tuple(stacks), stem_stride=stem_stride, stem_pool=False)


ARCHITECTURES = {
    # Sec. 4.1: ResNet-101's third stack (23 x (256 -> 1024)) becomes 46 x (512 -> 4096).
    "resnet161": Architecture(
        (Stack(3, 64, 256, 1), Stack(4, 128, 512, 2), Stack(46, 512, 4096, 2))
    ),
    "resnet50": _resnet(3, 4, 6, 3),
    # 'v1' is of CPC, not of ResNet: CPC v1 used "only the first 3 stacks of a ResNet-101".
    "resnet101_v1": _resnet(3, 4, 23),
    # App. C.1: the supervised baselines, 'v2' (pre-activation, as --block_order=pre) of ResNet.
    "resnet101_v2": _resnet(3, 4, 23, 3),
    "resnet152_v2": _resnet(3, 8, 36, 3),
    "resnet200_v2": _resnet(3, 24, 36, 3),
    # Of other works in Tables 1 and 3, as CMC and MoCo: all layers wider, after Kolesnikov et al.
    # 2019.
    "resnet50_x2": _resnet(3, 4, 6, 3, widening=2),
    "resnet50_x4": _resnet(3, 4, 6, 3, widening=4),
    "resnet152_x2": _resnet(3, 8, 36, 3, widening=2),
    # Ours, for patches of 12 to 32 px: 0.02 M parameters where the ladder of flags/ablation starts,
    # 0.22 M, and 3.4 M.
    "tiny": Architecture(
        (Stack(1, 8, 32, 1), Stack(1, 16, 64, 2), Stack(2, 32, 128, 2)),
        stem_kernel=3,
        stem_pool=False,
    ),
    "small": Architecture(
        (Stack(2, 16, 64, 1), Stack(2, 32, 128, 2), Stack(2, 64, 256, 2)),
        stem_kernel=3,
        stem_pool=False,
    ),
    # The third stack as ResNet-161's stands to ResNet-101's: 4 times the width, twice the
    # bottleneck. studies/label_curve compares it.
    "small_wide": Architecture(
        (Stack(2, 16, 64, 1), Stack(2, 32, 128, 2), Stack(2, 128, 1024, 2)),
        stem_kernel=3,
        stem_pool=False,
    ),
    "medium": Architecture(
        (Stack(2, 64, 256, 1), Stack(2, 128, 512, 2), Stack(2, 256, 1024, 2)),
        stem_kernel=3,
        stem_pool=False,
    ),
    # 0.9 M, for patches of 32 px: its stem of stride 4 leaves a patch the 8x8 places that 'small'
    # has of 16 px. The others are for smaller patches, or narrower: studies/causes compares them.
    "base": _base(),
    "base_24px": _base(stem_stride=3),
    "base_16px": _base(stem_stride=2),
    "base_512": _base(width=512),
    "base_256": _base(width=256),
    # 11 M, as many as ResNet-18 has, for a GPU (studies/gpu): blocks of ResNet-50, on as many
    # places of a patch as 'base' has.
    "large": Architecture(
        (Stack(3, 64, 256, 1), Stack(4, 128, 512, 2), Stack(8, 256, 1024, 2)),
        stem_stride=4,
        stem_pool=False,
    ),
    # Supervised baselines at 128 px: twice the blocks, or twice as wide inside, as Wide ResNet-50-2
    # (Zagoruyko and Komodakis 2016). studies/choices compares them.
    "base_deep": _base(blocks=4),
    "base_wide": _base(widening=2),
}
# An alias: App. C.1's name of the same network.
ARCHITECTURES["resnet50_v2"] = ARCHITECTURES["resnet50"]


class Entry(NamedTuple):
    """A network."""

    network: str  # 'module:class', a `Network`
    # fields of EncoderConfig that it supports; others must keep their defaults
    options: tuple[str, ...] = ()
    stacks: int = 0  # the largest --output_stack, if that is an option
    from_labels: Mapping[str, Any] = {}  # options of one that is trained on labels from the start
    sees: str = "rgb"  # what it makes of the images it is given, which are RGB: see networks/lab.py
    of: str = ""  # the entry whose networks see that; '': itself
    # Of a network of Keras Applications:
    pixels: str = ""  # the range that it takes, a key of `encoders.card.RANGES`
    side: int = 0  # of the images that its weights were trained on, px


# Name, as --encoder and --backbone take it -> entry.
NETWORKS = {
    name: Entry(
        "cpc_tf.encoders.networks.resnet:ResNet",
        options=("norm", "block_order", "output_stack", "recompute"),
        stacks=len(architecture.stacks),
        from_labels={"norm": "batch"},  # what supervised ResNets are made for
    )
    for name, architecture in ARCHITECTURES.items()
}
# Two networks of an entry, of lightness and of colours: NAME_lab, twice as wide. One of lightness
# alone: NAME_grey.
for _name in ("resnet50", "resnet50_x2", "resnet101_v1", "tiny", "small", "base"):
    for _sees in ("lab", "grey"):
        NETWORKS[f"{_name}_{_sees}"] = NETWORKS[_name]._replace(
            network="cpc_tf.encoders.networks.lab:Lab", sees=_sees, of=_name
        )

# Names that --encoder and --backbone may have, for their helps.
OWN = ", ".join(NETWORKS)

KERAS = "keras:"
KERAS_HUB = "keras_hub:"  # before the name of a preset
IMAGENET = "imagenet"  # in the place of a file: the weights of Keras
# The networks of Keras Applications by the range of pixels that they take.
_KERAS_NETWORKS = {
    "-1..1": "MobileNet MobileNetV2 InceptionV3 InceptionResNetV2 Xception NASNetMobile"
    " NASNetLarge ResNet50V2 ResNet101V2 ResNet152V2",
    "caffe": "ResNet50 ResNet101 ResNet152 VGG16 VGG19",
    "torch": "DenseNet121 DenseNet169 DenseNet201",
    # These rescale inside.
    "0..255": "MobileNetV3Small MobileNetV3Large"
    " EfficientNetB0 EfficientNetB1 EfficientNetB2 EfficientNetB3"
    " EfficientNetB4 EfficientNetB5 EfficientNetB6 EfficientNetB7"
    " EfficientNetV2B0 EfficientNetV2B1 EfficientNetV2B2 EfficientNetV2B3"
    " EfficientNetV2S EfficientNetV2M EfficientNetV2L"
    " ConvNeXtTiny ConvNeXtSmall ConvNeXtBase ConvNeXtLarge ConvNeXtXLarge"
    " RegNetX002 RegNetX004 RegNetX006 RegNetX008 RegNetX016 RegNetX032"
    " RegNetX040 RegNetX064 RegNetX080 RegNetX120 RegNetX160 RegNetX320"
    " RegNetY002 RegNetY004 RegNetY006 RegNetY008 RegNetY016 RegNetY032"
    " RegNetY040 RegNetY064 RegNetY080 RegNetY120 RegNetY160 RegNetY320"
    " ResNetRS50 ResNetRS101 ResNetRS152 ResNetRS200 ResNetRS270 ResNetRS350 ResNetRS420",
}
_USUAL_SIDE = 224
_SIDES = {
    **dict.fromkeys(("InceptionV3", "InceptionResNetV2", "Xception"), 299),
    "NASNetLarge": 331,
    "EfficientNetB1": 240,
    "EfficientNetB2": 260,
    "EfficientNetB3": 300,
    "EfficientNetB4": 380,
    "EfficientNetB5": 456,
    "EfficientNetB6": 528,
    "EfficientNetB7": 600,
    "EfficientNetV2B1": 240,
    "EfficientNetV2B2": 260,
    "EfficientNetV2B3": 300,
    "EfficientNetV2S": 384,
    "EfficientNetV2M": 480,
    "EfficientNetV2L": 480,
}
for _pixels, _names in _KERAS_NETWORKS.items():
    for _name in _names.split():
        NETWORKS[KERAS + _name] = Entry(
            "cpc_tf.encoders.networks.keras_applications:KerasNetwork",
            pixels=_pixels,
            side=_SIDES.get(_name, _USUAL_SIDE),
        )


def check_new(name: str, flag: str, value: str = "") -> None:
    """Raises ConfigError if no network of this name can learn from new weights; see
    `check_network`.
    """
    check_network(name, flag, value)
    if name.startswith(KERAS):
        raise ConfigError(
            flag,
            shown(value or name),
            "cannot begin with new weights: batch norm of Keras' networks keeps the statistics of"
            " trained ones",
        )


def check_network(name: str, flag: str, value: str = "") -> None:
    """Raises ConfigError if there is no network of this name.

    Args:
      name: of the network.
      flag: that names it.
      value: of the flag, if it is more than the name.
    """
    if name in NETWORKS:
        return
    if name.startswith(KERAS):
        spelled = {known.lower(): known for known in NETWORKS if known.startswith(KERAS)}
        near = difflib.get_close_matches(name.lower(), spelled, n=4, cutoff=0.7)
        alike = ", ".join(spelled[each] for each in near) or "e.g. keras:EfficientNetV2B0"
        why = f"Keras Applications has no network {shown(name.removeprefix(KERAS))}: {alike}"
    else:
        why = f"must be one of {OWN}"
    raise ConfigError(flag, shown(value or name), why)
