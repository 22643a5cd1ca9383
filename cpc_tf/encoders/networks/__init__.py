"""The table of encoders and the sizes of the ResNets: what is known of a network before TensorFlow
is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple


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
