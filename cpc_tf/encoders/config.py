"""Settings of an encoder."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import ConfigError, Settings, setting
from cpc_tf.encoders.networks import NETWORKS, OWN, check_network

# How an encoder was trained, beside the names of objectives: the values of `Identity.trained_by`.
# 'OBJECTIVE+labels' is pre-trained, then fine-tuned on labels.
LABELS = "labels"
UNTRAINED = "untrained"
PIXELS = "pixels"
UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True)
class EncoderConfig(Settings):
    """The network that turns a patch, or a whole image, into latents. It may not have an option."""

    encoder: str = setting(
        "resnet161",
        f"Architecture of the encoder: {OWN}",
        source="Sec. 4.1",
        compared=False,
    )
    norm: str = setting(
        "layer",
        "Normalization inside the encoder",
        source="Sec. 4.1",
        choices=("layer", "channel", "batch", "none"),
    )
    block_order: str = setting(
        "pre",
        "Order in a block. 'pre': norm and ReLU before a convolution (ResNet v2); 'post': after it",
        choices=("pre", "post"),
    )
    output_stack: int = setting(
        0, "Stack of blocks that is the output, from 1; 0: the last", minimum=0, maximum=4
    )
    recompute: bool = setting(
        False, "Recompute activations in the backward pass: less memory, a third more time"
    )

    def check(self):
        check_network(self.encoder, "encoder")
        entry = NETWORKS[self.encoder]
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name not in ("encoder", *entry.options) and value != field.default:
                raise ConfigError(
                    field.name,
                    value,
                    f"not an option of --encoder={self.encoder}; leave it at {field.default}",
                )
        if self.output_stack > entry.stacks:
            raise ConfigError(
                "output_stack",
                self.output_stack,
                f"--encoder={self.encoder} has only {entry.stacks} stacks",
            )
