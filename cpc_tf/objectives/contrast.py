"""Contrastive objectives: each image is compared with the images of its group, wherever they are computed."""

from __future__ import annotations

import abc
from typing import NamedTuple

import tensorflow as tf

from cpc_tf.objectives.base import Objective, Output
from cpc_tf.settings import ConfigError

Embeddings = dict[str, tf.Tensor]


class Pool(NamedTuple):
    """The candidates of some images."""

    values: tf.Tensor  # [G, N, ...]: of G groups of N images
    first: tf.Tensor | int  # the place of the first of these images in its group


def pool(values: tf.Tensor, group: int, first: tf.Tensor | int) -> Pool:
    """Returns the candidates of some images: the values of all images of their groups.

    Args:
      values: [B, ...] of this replica's images. B is a multiple of `group`, or divides it; then the values of all
        replicas are gathered.
      group: the number of images in a group.
      first: the index of the first of the B images in the batch of all replicas.
    """
    count = values.shape[0]
    if count % group == 0:
        return Pool(tf.reshape(values, [count // group, group, *values.shape[1:]]), 0)
    everything = tf.distribute.get_replica_context().all_gather(values, axis=0)
    everything = tf.reshape(everything, [-1, group, *values.shape[1:]])  # [all groups, group, ...]
    return Pool(tf.gather(everything, [first // group]), first % group)


def check_groups(group: int, batch_size: int, replicas: int) -> None:
    """Raises ConfigError if groups and replicas divide a batch in ways that do not fit together."""
    rows = batch_size // replicas
    if batch_size % group:
        fitting = [n for n in range(1, batch_size + 1) if batch_size % n == 0]
        raise ConfigError(
            "negative_images",
            group,
            f"--batch_size={batch_size} cannot be divided into groups of so many; "
            f"{', '.join(map(str, fitting))} would do",
        )
    if rows % group and group % rows:
        raise ConfigError(
            "negative_images",
            group,
            f"each of {replicas} replicas has {rows} images of --batch_size={batch_size}, "
            f"and neither number divides the other; --batch_size={group * replicas} would do",
        )


class Contrastive(Objective):
    """An objective whose loss is a function of embeddings, some of which are candidates for other images.

    Attributes:
      group: the number of images that give each other negatives; 0: all that `call` is given.
    """

    group = 0
    OF_WHOLE_BATCH = ""  # an image is compared with those of its group, wherever they are

    @abc.abstractmethod
    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Returns float32 [B, ...] by name, each image's own; 'latents' among them, from which there is no loss."""

    @abc.abstractmethod
    def compare(self, own: Embeddings, pools: dict[str, Pool]) -> Output:
        """Computes loss and metrics of B images.

        Args:
          own: their embeddings.
          pools: name of an embedding, of those in `candidates` -> the candidates of these images.
        """

    @abc.abstractmethod
    def candidates(self) -> list[str]:
        """Returns the names of the embeddings that are candidates."""

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        return self.loss(self.compiled(lambda view: self.embed(view, training))(view), first)

    def loss(self, own: Embeddings, first: tf.Tensor | int = 0) -> Output:
        """Computes loss and metrics from the embeddings of this replica's images; the first has the index `first`."""
        latents = own["latents"]
        own = {name: values for name, values in own.items() if name != "latents"}
        group = self.group or latents.shape[0]
        pools = {name: pool(own[name], group, first) for name in self.candidates()}
        loss, metrics, _ = self.compiled(self.compare)(own, pools)
        return Output(loss, metrics, latents)
