"""The encoders by name: what stands in their stem and stacks."""

import dataclasses

from cpc_tf.settings import Settings, setting


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
    stem_pool: bool = True


def _resnet(*blocks: int) -> Architecture:
    """The first len(blocks) stacks of a bottleneck ResNet (He et al. 2016)."""
    sizes = ((64, 256, 1), (128, 512, 2), (256, 1024, 2), (512, 2048, 2))
    return Architecture(tuple(Stack(count, *size) for count, size in zip(blocks, sizes)))


ARCHITECTURES = {
    # Sec. 4.1: ResNet-101's third stack (23 x (256 -> 1024)) becomes 46 x (512 -> 4096).
    "resnet161": Architecture((Stack(3, 64, 256, 1), Stack(4, 128, 512, 2), Stack(46, 512, 4096, 2))),
    "resnet50": _resnet(3, 4, 6, 3),
    # CPC v1: "only the first 3 stacks of a ResNet-101".
    "resnet101_v1": _resnet(3, 4, 23),
    # App. C.1: the supervised baselines, all of them 'v2' (pre-activation).
    "resnet50_v2": _resnet(3, 4, 6, 3),
    "resnet101_v2": _resnet(3, 4, 23, 3),
    "resnet152_v2": _resnet(3, 8, 36, 3),
    "resnet200_v2": _resnet(3, 24, 36, 3),
    # Ours, for patches of 12 to 32 px: 0.22 M parameters, and 0.02 M where the ladder of flags/ablation starts.
    "tiny": Architecture(
        (Stack(1, 8, 32, 1), Stack(1, 16, 64, 2), Stack(2, 32, 128, 2)), stem_kernel=3, stem_pool=False
    ),
    "small": Architecture(
        (Stack(2, 16, 64, 1), Stack(2, 32, 128, 2), Stack(2, 64, 256, 2)), stem_kernel=3, stem_pool=False
    ),
}

ENCODERS = tuple(ARCHITECTURES)


@dataclasses.dataclass(frozen=True)
class EncoderConfig(Settings):
    """The network that turns a patch, or a whole image, into latents."""

    encoder: str = setting("resnet161", "architecture", source="Sec. 4.1", choices=ENCODERS)
    norm: str = setting(
        "layer", "normalization inside the encoder", source="Sec. 4.1", choices=("layer", "channel", "batch", "none")
    )
    block_order: str = setting(
        "pre", "'pre': norm and ReLU before each convolution (ResNet v2); 'post': after it", choices=("pre", "post")
    )
    output_stack: int = setting(0, "which stack of blocks is the output, from 1; 0: the last", minimum=0, maximum=4)
    recompute: bool = setting(False, "recompute activations in the backward pass: less memory, a third more time")
