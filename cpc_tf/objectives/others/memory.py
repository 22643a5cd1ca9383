"""What objectives remember from step to step, and no gradient trains: banks, queues and momentum
copies of networks.

Each replica has all of it and changes its own copy, in `Objective.after_step`, by values that are
the same on all. So the copies stay equal. It is in the checkpoint, and in no exported module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

import tensorflow as tf
from scipy.special import hyp0f1

from cpc_tf.core.keras import keras
from cpc_tf.encoders.network import Network


def variable(initial: tf.Tensor | Callable[[], tf.Tensor], name: str) -> tf.Variable:
    """Returns a variable of this kind; made in the strategy's scope."""
    return tf.Variable(initial, trainable=False, name=name, aggregation=tf.VariableAggregation.NONE)


def unit_vectors(count: int, dim: int, seed: int = 0) -> tf.Tensor:
    """Returns random vectors of length 1, float32 [count, dim], the same for the same seed."""
    return tf.math.l2_normalize(tf.random.stateless_normal([count, dim], [seed, count]), axis=1)


def overwrite(bank: tf.Variable, rows: tf.Tensor, values: tf.Tensor) -> None:
    """Sets rows of a bank [N, ...], in place: int [B] -> values [B, ...]. In replica context.

    Of an image that is twice in a batch, at the border of two epochs, one value or the other is
    kept.
    """
    tf.raw_ops.ResourceScatterUpdate(resource=bank.handle, indices=rows, updates=values)


class Bank(tf.Module):
    """A vector for each image of the dataset, float32 [images, dim]; random ones of length 1 at
    first.

    Without images it is empty: `values` is a row of zeros and no variable, so that an export reads
    no bank.
    """

    def __init__(self, images: int, dim: int, seed: int = 0):
        super().__init__(name="bank")
        self.values = (
            variable(unit_vectors(images, dim, seed), "values") if images else tf.zeros([1, dim])
        )

    def update(self, index: tf.Tensor, vectors: tf.Tensor, momentum: float) -> None:
        """Mixes vectors [B, dim] into the rows `index`, int32 [B], of length 1 then; `momentum`:
        the old rows' part.
        """
        mixed = momentum * tf.gather(self.values, index) + (1.0 - momentum) * vectors
        overwrite(self.values, index, tf.math.l2_normalize(mixed, axis=1))

    def nce_loss(
        self,
        vectors: tf.Tensor,
        index: tf.Tensor,
        step: tf.Tensor | int,
        count: int,
        temperature: float,
    ) -> tf.Tensor:
        """Returns the mean loss of noise-contrastive estimation, float32 scalar (Wu et al. 2018,
        eq. 4 to 8).

        Z, which Wu et al. estimate from the first batch, is here its mean over random vectors: the
        start of the bank.

        Args:
          vectors: [B, dim], of length 1.
          index: int64 [B], the rows of the bank that are their positives.
          step: int64; the noise, `count` rows for each image, is a function of the image and the
            step alone.
          temperature: divisor of cosines.
        """
        images = self.values.shape[0]

        def draw(image: tf.Tensor) -> tf.Tensor:
            seed = tf.stack([tf.cast(step, tf.int64), image])
            return tf.random.stateless_uniform([count], seed, maxval=images, dtype=tf.int32)

        noise = tf.map_fn(
            draw, index, fn_output_signature=tf.TensorSpec([count], tf.int32)
        )  # [B, M]
        candidates = tf.gather(
            self.values, tf.concat([tf.cast(index, tf.int32)[:, None], noise], 1)
        )  # [B, 1+M, dim]
        # Z / images: the mean of exp(v . f / temperature) over random f of length 1.
        mean = float(hyp0f1(vectors.shape[1] / 2, 0.25 / temperature**2))
        # P(i|v) times the images
        ratio = tf.exp(tf.einsum("bt,bmt->bm", vectors, candidates) / temperature) / mean
        data = tf.math.log(ratio[:, 0] / (ratio[:, 0] + count))
        return -tf.reduce_mean(data + tf.reduce_sum(tf.math.log(count / (ratio[:, 1:] + count)), 1))


class Queue(tf.Module):
    """The last `length` vectors of size `dim`, `values`, float32 [length, dim]; at first random
    ones of length 1.
    """

    def __init__(self, length: int, dim: int):
        super().__init__(name="queue")
        self.values = variable(unit_vectors(length, dim), "values")
        self.next = variable(tf.zeros([], tf.int32), "next")  # the row that is overwritten next

    def push(self, vectors: tf.Tensor) -> None:
        """Overwrites the oldest vectors by these, [B, dim], of which the last `length` are kept."""
        length = self.values.shape[0]
        vectors = vectors[-length:]
        overwrite(self.values, (self.next + tf.range(vectors.shape[0])) % length, vectors)
        self.next.assign((self.next + vectors.shape[0]) % length)


def copy_of(encoder: Network, precision: str) -> Network:
    """Returns a network like this one, with weights of its own, which no gradient trains."""
    copy = type(encoder)(encoder.config, precision, name="momentum_copy")
    copy.trainable = False
    return copy


def follow(
    copies: Sequence[keras.layers.Layer],
    originals: Sequence[keras.layers.Layer],
    momentum: tf.Tensor | float,
) -> None:
    """Moves weights towards others: copy = momentum * copy + (1 - momentum) * original; 0 makes
    them equal.

    Statistics of batch norm, which are averages already, become equal.
    """

    def by_path(layer: keras.layers.Layer) -> dict[str | int, tf.Variable]:
        # The order of a model's `weights` is another one where nothing is trained.
        return (
            layer.get_weight_paths()
            if isinstance(layer, keras.Model)
            else dict(enumerate(layer.weights))
        )

    for copy, original in zip(copies, originals):
        learned = {id(weight) for weight in original.trainable_weights}
        copied = by_path(copy)
        for path, weight in by_path(original).items():
            kept = momentum if id(weight) in learned else 0.0
            copied[path].assign(kept * copied[path] + (1.0 - kept) * weight)
