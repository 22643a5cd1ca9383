"""The table of encoders: what is known of a network before TensorFlow is imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cpc_tf.encoders.networks.architectures import ARCHITECTURES


class Entry(NamedTuple):
    """A network."""

    network: str  # 'module:class', a `Network`
    options: tuple[str, ...] = ()  # fields of EncoderConfig that it supports; others must keep their defaults
    stacks: int = 0  # the largest --output_stack, if that is an option
    from_labels: Mapping[str, Any] = {}  # options of one that is trained on labels from the start


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
