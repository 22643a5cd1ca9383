"""The values that an encoder begins with where it was pre-trained before."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from cpc_tf.encoders.card import EncoderCard, read_card
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import saved_values, take_values
from cpc_tf.encoders.network import Network, restore_kernel_norms
from cpc_tf.objectives import OBJECTIVES
from cpc_tf.settings import ConfigError


def initialize(encoder: Network, module: str) -> None:
    """Gives an encoder the values of --initial_encoder, a module of ours, to go on from.

    Its outputs are the module's; its kernels before a norm are no longer than new ones, so that it learns as they do.

    Raises:
      ConfigError: there is none, it learned from labels, or it is another network than the run's.
    """
    with _named(module):
        _check(read_card(module), encoder.config)
        take_values(encoder, saved_values(module, module), module)
    restore_kernel_norms(encoder)


def read_initial_card(module: str) -> EncoderCard:
    """The card of --initial_encoder. Raises ConfigError if there is none."""
    with _named(module):
        return read_card(module)


@contextlib.contextmanager
def _named(module: str) -> Iterator[None]:
    """Within it, what is wrong with --encoder=MODULE is said of --initial_encoder."""
    try:
        yield
    except ConfigError as error:
        reason = str(error).replace(f"--encoder={module}: ", "", 1)
        raise ConfigError(f"--initial_encoder={module}: {reason}") from error


def _check(card: EncoderCard, wanted: EncoderConfig) -> None:
    if card.training.trained_by not in OBJECTIVES:
        raise ConfigError("it learned from labels, and pre-training is without; name one that did not")
    for field in dataclasses.fields(EncoderConfig):
        there, here = getattr(card.encoder, field.name), getattr(wanted, field.name)
        if there != here and field.name != "recompute":  # which changes no value
            raise ConfigError(f"it has --{field.name}={there}, this run --{field.name}={here}")
