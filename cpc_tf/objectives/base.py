"""The base of all objectives: an encoder with a head and a loss on one view of unlabelled images.

A contrastive objective compares each image with the images of its group, wherever they are
computed.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.core.keras import keras, policy
from cpc_tf.core.settings import ConfigError
from cpc_tf.data.views import Together, View
from cpc_tf.encoders.layers import batch_statistics, has_batch_norm, moments
from cpc_tf.encoders.network import Network
from cpc_tf.objectives.config import ObjectiveSettings


class Output(NamedTuple):
    """What an objective computes from a batch of views."""

    loss: tf.Tensor  # float32 scalar: what is minimized
    metrics: dict[str, tf.Tensor]  # float32 scalars: the other `metric_names`
    # float32 [..., D], whose spread is monitored; None: nothing is monitored
    latents: tf.Tensor | None
    kept: dict[str, tf.Tensor] | None = (
        None  # float32 or int32 [B, ...]: what `after_step` gets of the whole batch
    )


class Figure(NamedTuple):
    """How a card names and formats a metric."""

    text: str
    form: str


# The metrics of every objective with latents.
SPREAD = {
    "effective_rank": Figure("effective rank of the latents", "{:.1f}"),
    "knn": Figure("nearest-neighbour accuracy of averaged weights", "{:.3f}"),
}


class Objective(keras.Model, abc.ABC):
    """An encoder, a head and a loss. The table of them is in `config`.

    Args:
      encoder: images in [0, 1] -> features; its variables may not exist yet.
      settings: those of the objective, of the class in the table.
      precision: as `Network` has it; logits and losses are float32.

    Attributes:
      parts: the number of parts of a batch that a CPU encodes side by side; does not change the
        result.
      norm_images: the number of images over which the encoder's batch norm takes statistics; 0: all
        of the batch.
      compiled: wraps each piece of a training step that lies between two exchanges of the replicas.
        XLA compiles the pieces, since it cannot compile an exchange.
    """

    NAME: ClassVar[str]  # value of --objective
    SUMMARY: ClassVar[str]  # noun phrase for model cards, with the paper
    VIEW: ClassVar[View | Together]  # what it sees of an image
    # metrics of a finished run to report, the most important first
    FIGURES: ClassVar[dict[str, Figure]]
    LATENTS: ClassVar[bool] = True  # whether its output has latents
    # What the loss computes from all images of a batch, e.g. "mean and variance of the latents";
    # empty if the loss of a batch is the mean of the losses of its images. Without a default, as a
    # wrong one would train something else.
    OF_WHOLE_BATCH: ClassVar[str]
    EXCHANGES: ClassVar[bool] = (
        False  # whether `call` computes that from the images of all replicas, as `moments` does
    )
    # Whether `call` also gets `index`, int64 [B], the places of the images in the dataset, and
    # `step`, int64.
    INDEXED: ClassVar[bool] = False
    # Whether `between_epochs` is called at the start and after each epoch.
    PERIODIC: ClassVar[bool] = False
    # What is a function of the length of the run, for a line when that changes, e.g. "the momentum
    # of the copy".
    FOLLOWS_LENGTH: ClassVar[str] = ""

    def __init__(self, encoder: Network, settings: ObjectiveSettings, precision: str = "float32"):
        super().__init__(name=self.NAME.replace("+", "_and_"), dtype=policy(precision))
        self.encoder = encoder
        self.settings = settings
        self.parts = 1
        self.norm_images = 0
        self.compiled = lambda piece: piece

    @classmethod
    def of_whole_batch(cls) -> str:
        """Returns OF_WHOLE_BATCH. Raises ConfigError if the class does not have it."""
        phrase = getattr(cls, "OF_WHOLE_BATCH", None)
        if not isinstance(phrase, str):
            raise ConfigError(
                "objective",
                cls.NAME,
                f"its class {cls.__name__} must say what the loss computes from all images of a"
                ' batch together: OF_WHOLE_BATCH = "" if nothing, else in words; see'
                " docs/extending.md",
            )
        return phrase

    @property
    def objectives(self) -> list[Objective]:
        """Itself, and those that it sums."""
        return [self]

    @property
    @abc.abstractmethod
    def metric_names(self) -> list[str]:
        """The keys of `Output.metrics`."""

    @abc.abstractmethod
    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        """Computes loss, metrics and latents of images of VIEW, uint8 with static shape.

        Args:
          first: the index of the first image in the batch of all replicas.
        """

    def prepare(self, images: int, train_steps: int) -> None:
        """Makes what depends on the images of the dataset or on the length of the run; before the
        first call.

        Both are 0 if the model is made for an export.
        """

    def begin(self) -> None:
        """Called when the weights are there, new ones or those of --initial_encoder, and again if
        they are replaced.
        """

    def after_step(self, kept: dict[str, tf.Tensor], step: tf.Tensor) -> None:
        """Changes what no gradient trains (`memory`), after the optimizer's update; in replica
        context.

        Args:
          kept: `Output.kept` of all images of the batch, [batch, ...], the same on all replicas.
          step: int64 scalar, from 0.
        """

    def between_epochs(
        self, epoch: int, encode_all: Callable[[], np.ndarray]
    ) -> Sequence[tf.Variable]:
        """Changes variables before an epoch, counted from 0; outside of the replicas.

        What it does must be a function of the variables, of `epoch` and of the images.

        Args:
          encode_all: computes the features of all images, whole and without augmentation, float32
            [N, D], in order.

        Returns:
          The trained variables that begin anew: the optimizer forgets which way their gradients
          pointed.
        """
        return ()

    def encode(
        self, images: tf.Tensor, training: bool = False, network: Network | None = None
    ) -> tf.Tensor:
        """Encodes images [B, ..., S, S, 3], float in [0, 1] or uint8, as latents [B, ..., D],
        float32.

        `network` encodes in place of the encoder: a momentum copy.
        """
        return self._encoded(
            images, training, functools.partial(network or self.encoder, training=training)
        )

    def encode_views(
        self, views: tf.Tensor, training: bool = False, network: Network | None = None
    ) -> tf.Tensor:
        """Encodes views [B, V, S, S, 3] of images as latents [B, V, D]; batch norm's statistics are
        of one view.
        """
        if not has_batch_norm(self.encoder):
            return self.encode(views, training, network)
        return tf.stack(
            [self.encode(views[:, i], training, network) for i in range(views.shape[1])], 1
        )

    def endpoints(self, images: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Encodes images as `encode` does: the encoder's endpoints by name, [B, ..., h, w, C] and
        [B, ..., D].
        """
        return self._encoded(
            images, training, functools.partial(self.encoder, training=training, every=True)
        )

    def _encoded(
        self, images: tf.Tensor, training: bool, network: Callable
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        batch, *inner = images.shape[:-3]
        flat = tf.reshape(images, [-1, *images.shape[-3:]])  # [B*..., S, S, 3]
        of_group = self.norm_images if training else 0
        groups = (
            {"groups": max(1, batch // of_group), "replicas": max(1, of_group // batch)}
            if of_group
            else {}
        )
        with batch_statistics(**groups):
            outputs = side_by_side(
                lambda x: network(tf.image.convert_image_dtype(x, tf.float32)), flat, self.parts
            )
        batch = -1 if batch is None else batch
        return tf.nest.map_structure(
            lambda x: tf.reshape(x, [batch, *inner, *x.shape[1:]]), outputs
        )


def side_by_side(function: Callable[[tf.Tensor], Any], batch: tf.Tensor, parts: int) -> Any:
    """Computes function(batch), one or more tensors, in `parts` calls; a batch of unknown size is
    not divided.
    """
    count = batch.shape[0]
    if parts == 1 or count is None or count < parts:
        return function(batch)
    sizes = [count // parts + (i < count % parts) for i in range(parts)]
    computed = [function(part) for part in tf.split(batch, sizes)]
    return tf.nest.map_structure(lambda *values: tf.concat(values, 0), *computed)


def classify(logits: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (mean cross-entropy, accuracy) of logits [N, K] and labels int32 [N]; float32
    scalars.
    """
    logits = tf.cast(logits, tf.float32)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    correct = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    return loss, tf.reduce_mean(tf.cast(correct, tf.float32))


def area_means(maps: tf.Tensor, rows: int, columns: int) -> tf.Tensor:
    """Shrinks maps [..., h, w, C] to [..., rows, columns, C], each the mean of an equal share of
    the map.

    A pixel at a border counts in both shares, by the part of it that lies there. XLA has no area
    resizing.
    """

    def shares(cells: int, side: int) -> np.ndarray:  # [cells, side], rows of sum 1
        cut = np.arange(cells + 1)[:, None] * side / cells  # where cells begin and end, in pixels
        return (np.diff(np.clip(cut - np.arange(side), 0, 1), axis=0) * cells / side).astype(
            np.float32
        )

    return tf.einsum(
        "rh,...hwc,qw->...rqc", shares(rows, maps.shape[-3]), maps, shares(columns, maps.shape[-2])
    )


def rotate(grid: tf.Tensor, quarter_turns: int) -> tf.Tensor:
    """Rotates grids or images [B, R, C, D] counter-clockwise, as np.rot90."""
    if quarter_turns == 0:
        return grid
    if quarter_turns == 2:
        return tf.reverse(grid, [1, 2])
    transposed = tf.transpose(grid, [0, 2, 1, 3])  # [B, C, R, D]
    return tf.reverse(transposed, [1 if quarter_turns == 1 else 2])


def standardize(features: tf.Tensor) -> tf.Tensor:
    """Gives each of the D features of [..., D] mean 0 and variance 1 over all other axes and all
    replicas.

    This is batch norm without scale, shift and running statistics, for a head that is not used
    after training. The features vary little around a large mean: without it a classifier has to
    learn to ignore the mean first.
    """
    mean, variance = moments(features)  # [D] each
    return (features - mean) * tf.math.rsqrt(variance + 1e-5)


Embeddings = dict[str, tf.Tensor]


class CandidatePool(NamedTuple):
    """The candidates of some images."""

    values: tf.Tensor  # [G, N, ...]: of G groups of N images
    first: tf.Tensor | int  # the place of the first of these images in its group


def pool(values: tf.Tensor, group: int, first: tf.Tensor | int) -> CandidatePool:
    """Returns the candidates of some images: the values of all images of their groups.

    Args:
      values: [B, ...] of this replica's images. B is a multiple of `group`, or divides it; then the
        values of all replicas are gathered.
      group: the number of images in a group.
      first: the index of the first of the B images in the batch of all replicas.
    """
    count = values.shape[0]
    if count % group == 0:
        return CandidatePool(tf.reshape(values, [count // group, group, *values.shape[1:]]), 0)
    everything = tf.distribute.get_replica_context().all_gather(values, axis=0)
    everything = tf.reshape(everything, [-1, group, *values.shape[1:]])  # [all groups, group, ...]
    return CandidatePool(tf.gather(everything, [first // group]), first % group)


def check_groups(flag: str, group: int, batch_size: int, replicas: int) -> None:
    """Raises ConfigError if the groups of a flag and the replicas divide a batch in ways that do
    not fit together.
    """
    rows = batch_size // replicas
    if batch_size % group:
        fitting = [n for n in range(1, batch_size + 1) if batch_size % n == 0]
        raise ConfigError(
            flag,
            group,
            f"--batch_size={batch_size} cannot be divided into groups of this size;"
            f" {', '.join(map(str, fitting))} would do",
        )
    if rows % group and group % rows:
        raise ConfigError(
            flag,
            group,
            f"each of {replicas} replicas has {rows} images of --batch_size={batch_size}, "
            f"and neither number divides the other; --batch_size={group * replicas} would do",
        )


class Contrastive(Objective):
    """An objective whose loss is a function of embeddings, some of which are candidates for other
    images.

    Attributes:
      group: the number of images that give each other negatives; 0: all that `call` is given.
    """

    group = 0
    OF_WHOLE_BATCH = ""  # an image is compared with those of its group, wherever they are

    @abc.abstractmethod
    def embed(self, view: tf.Tensor, training: bool = False) -> Embeddings:
        """Returns float32 [B, ...] by name, each image's own; 'latents' among them, from which
        there is no loss.
        """

    @abc.abstractmethod
    def compare(self, embeddings: Embeddings, pools: dict[str, CandidatePool]) -> Output:
        """Computes loss and metrics of B images.

        Args:
          embeddings: of these images.
          pools: name of an embedding, of those in `candidates` -> the candidates of these images.
        """

    @abc.abstractmethod
    def candidates(self) -> list[str]:
        """Returns the names of the embeddings that are candidates."""

    def call(self, view: tf.Tensor, training: bool = False, first: tf.Tensor | int = 0) -> Output:
        return self.loss(self.compiled(lambda view: self.embed(view, training))(view), first)

    def loss(self, embeddings: Embeddings, first: tf.Tensor | int = 0) -> Output:
        """Computes loss and metrics from the embeddings of this replica's images; the first has the
        index `first`.
        """
        latents = embeddings["latents"]
        compared = {name: values for name, values in embeddings.items() if name != "latents"}
        group = self.group or latents.shape[0]
        pools = {name: pool(compared[name], group, first) for name in self.candidates()}
        output = self.compiled(self.compare)(compared, pools)
        return output._replace(latents=latents)
