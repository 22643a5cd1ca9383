"""Settings of an encoder."""

import dataclasses

from cpc_tf.encoders.network import Network
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.settings import Settings, setting


@dataclasses.dataclass(frozen=True)
class EncoderConfig(Settings):
    """The network that turns a patch, or a whole image, into latents. A family of networks may refuse an option."""

    encoder: str = setting(
        "resnet161", "Architecture of the encoder", source="Sec. 4.1", choices=tuple(NETWORKS), compared=False
    )
    norm: str = setting(
        "layer", "Normalization inside the encoder", source="Sec. 4.1", choices=("layer", "channel", "batch", "none")
    )
    block_order: str = setting(
        "pre",
        "Order in a block. 'pre': norm and ReLU before a convolution (ResNet v2); 'post': after it",
        choices=("pre", "post"),
    )
    output_stack: int = setting(0, "Stack of blocks that is the output, from 1; 0: the last", minimum=0, maximum=4)
    recompute: bool = setting(False, "Recompute activations in the backward pass: less memory, a third more time")

    def check(self):
        NETWORKS[self.encoder].check(self)


def make_encoder(config: EncoderConfig, precision: str = "float32") -> Network:
    """A new encoder; its variables are made at the first call."""
    return NETWORKS[config.encoder](config, precision)
