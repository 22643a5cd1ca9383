"""The value of --encoder, parsed: one meaning in every binary."""

from __future__ import annotations

import dataclasses

from cpc_tf.encoders.card import EncoderCard, read_card
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.identity import PIXELS
from cpc_tf.encoders.networks import NETWORKS
from cpc_tf.settings import ConfigError

# Kinds of encoders beside PIXELS. Those that end with a colon are what the value begins with.
MODULE, NEW, COPY, REBUILT = "module", "random", "random:", "network:"


@dataclasses.dataclass(frozen=True)
class EncoderName:
    """The value of --encoder.

    Attributes:
      text: as given.
      kind: PIXELS: no encoder, what learns from the labels begins at the pixels. NEW: a network of --backbone with new
        weights. COPY: the untrained copy of one of our modules. MODULE: a TF-Hub module. REBUILT: one of our modules
        as a network, which computes in --precision; a module computes as it was exported.
      module: directory or handle, '' if there is none.
    """

    text: str
    kind: str
    module: str = ""

    @classmethod
    def parse(cls, text: str) -> EncoderName:
        """Raises ConfigError if nothing is named."""
        if text in (PIXELS, NEW):
            return cls(text, text)
        kind = next((kind for kind in (COPY, REBUILT) if text.startswith(kind)), MODULE)
        module = text if kind == MODULE else text[len(kind) :]
        if not module:
            raise ConfigError(f"--encoder={text} is empty: name a TF-Hub module, e.g. --encoder={text}runs/photos/hub")
        return cls(text, kind, module)

    @property
    def is_new(self) -> bool:
        """Whether it begins with random weights."""
        return self.kind in (PIXELS, NEW, COPY)

    def card(self, otherwise: str = "") -> EncoderCard:
        """Of its module; see `read_card`."""
        return read_card(self.module, otherwise)

    def settings(self, backbone: str) -> EncoderConfig:
        """Of the network, where it is one of ours that is built anew."""
        if self.module:
            return self.card("--encoder=random --backbone=NAME is a new network").encoder
        return EncoderConfig(encoder=backbone, **(NETWORKS[backbone].FROM_LABELS if self.kind == PIXELS else {}))
