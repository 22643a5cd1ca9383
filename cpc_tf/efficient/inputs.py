"""What a run with few labels learns from: the labels that it may see, settings that follow from
these, and the images.

The labels are a stratified, seeded, nested part of all, and some of them are held out. Each phase
trains on a part of the images and is scored on another.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.core.settings import ConfigError, derived, replace
from cpc_tf.data import draws, pipeline
from cpc_tf.data.source import Joined, Select, Source, restricted
from cpc_tf.data.views import RandomSizedCrop
from cpc_tf.efficient.classifier import ENCODED, FROZEN
from cpc_tf.efficient.config import EfficientConfig, LabelsConfig
from cpc_tf.efficient.propagation import with_unlabelled
from cpc_tf.encoders.card import EncoderName
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import (
    Features,
    encode_dataset,
    feature_batches,
    on_replicas,
    own_images,
)
from cpc_tf.training.config import UsualTraining
from cpc_tf.training.strategy import replica_batches

# As long as imagenette/efficient trains on 950 labels; with 80 labels nothing changed after 400
# steps.
USUAL = UsualTraining(batch=64, epochs=100, least_steps=400)
# Head of as many labels at least -> blocks and width: the paper's, and that of
# imagenette/efficient.
HEADS = {10_000: (11, 4096), 0: (2, 512)}
MOST_VIEWS = 16  # of each image
ALL_VIEWS = 8000  # of all images: a view on the feature map of 128 px takes 256 KB
# Of few labels: below this share of the loss of a guess the accuracy on new images stopped rising
# (docs/notebook/2026-11-27-answer.md).
LEARNED = 0.2
FEW = 128
PAPERS_SIZES = 256, 224


class Labels(NamedTuple):
    """The labels of a run, as ascending indices into a split in the order of its files."""

    chosen: np.ndarray  # those that may be seen, int64 [n]
    # These in two parts, to select settings on; None if nothing can be held out.
    fit: np.ndarray | None
    held_out: np.ndarray | None
    fraction: float  # which part of all labels the chosen are

    def to_json(self) -> str:
        """The content of labels.json."""
        held_out = [] if self.held_out is None else self.held_out.tolist()
        return json.dumps({"chosen": self.chosen.tolist(), "held_out": held_out}) + "\n"

    def in_split(self, rows: np.ndarray) -> Labels:
        """Returns these labels, which are indices into some rows of a split, int64 [n], as indices
        into the split.
        """
        fit = None if self.fit is None else rows[self.fit]
        held_out = None if self.held_out is None else rows[self.held_out]
        return Labels(rows[self.chosen], fit, held_out, self.fraction)


def choose_labels(
    labels: np.ndarray,
    class_names: tuple[str, ...],
    config: LabelsConfig,
    seed: int,
    group_of: np.ndarray | None = None,
) -> Labels:
    """Returns the labels that a run may see.

    Stratified: each class gives the same part of its examples, rounded, and holds out the same part
    of these, at least one. Nested: a smaller part lies inside a larger one of the same seed.
    Nothing is held out if a class has only one. The examples of a group are held out together.

    A multi-label example counts for one of its classes, see `rarest`; a class with too few of its
    own gives all of them, and one with a single label holds out none.

    Args:
      labels: int64 [N], of all examples; or float32 [N, classes] of 0 and 1.
      class_names, config, seed: of the run.
      group_of: int64 [N], see `Source.groups`; None: each example is alone.

    Raises:
      ConfigError: a class would get no label, or has too few.
    """
    # The same part of each class.
    multi_label = labels.ndim == 2
    fraction = config.label_fraction
    per_class = config.labels_per_class
    strata = draws.rarest(labels) if multi_label else labels
    chosen = []
    for number in range(len(class_names) + multi_label):  # the last has the images of no class
        rows = np.flatnonzero(strata == number)
        shuffled = np.random.default_rng([seed, number]).permutation(rows)
        # Rounded half up, and exact, so that 0.29 of 100 is 29.
        count = per_class or int(Fraction(str(fraction)) * len(shuffled) + Fraction(1, 2))
        chosen.append(shuffled[:count])
    seen = np.sort(np.concatenate(chosen))
    _refuse_missing_classes(labels, seen, class_names, config)

    # What is held out.
    group_of = np.arange(len(labels)) if group_of is None else group_of
    held_out = draws.last_part(
        map(np.ndarray.tolist, chosen), group_of.tolist().__getitem__, config.held_out
    )
    is_held_out = np.isin(seen, list(held_out))
    has_held_out = [np.isin(indices, seen[is_held_out]).any() for indices in chosen]
    enough = any(has_held_out) if multi_label else all(has_held_out)
    fraction = len(seen) / len(labels) if per_class else fraction
    if not config.held_out or not enough:
        return Labels(seen, None, None, fraction)
    return Labels(seen, seen[~is_held_out], seen[is_held_out], fraction)


def _refuse_missing_classes(
    labels: np.ndarray, seen: np.ndarray, class_names: tuple[str, ...], config: LabelsConfig
) -> None:
    """Raises ConfigError if a class has no label, or fewer than --labels_per_class, among those
    that are seen.
    """
    multi_label = labels.ndim == 2
    per_class = config.labels_per_class
    for number, name in enumerate(class_names):
        has = labels[:, number] > 0.5 if multi_label else labels == number
        have = int(has.sum())
        count = int(has[seen].sum())
        if not have:
            raise ConfigError(
                f"--split: class {name} has no examples there, so it cannot be learned"
            )
        if not count:
            flag = "label_fraction"
            value = config.label_fraction
            if per_class:
                flag = "labels_per_class"
                value = per_class
            more = "use more"
            if not multi_label:
                least = math.ceil(5e5 / have) / 1e6
                more = f"use at least {least:g}, or --labels_per_class=1"
            raise ConfigError(
                flag, value, f"leaves none of the {have} labels of class {name}; {more}"
            )
        if count < per_class and not multi_label:
            raise ConfigError("labels_per_class", per_class, f"class {name} has only {have}")


def from_encoder(config: EfficientConfig) -> tuple[EfficientConfig, str]:
    """Returns the settings with the sizes of images, and a line on those that were not given."""
    name = EncoderName.parse(config.classifier.encoder)
    images = config.images
    card = name.find_card()
    usual, side = (card.geometry.resize, card.geometry.image_size) if card else PAPERS_SIZES
    image_size = images.image_size or min(side, images.resize or side)
    resize = max(image_size, round(image_size * usual / side))
    source = "the encoder's card" if card else "the paper, since --encoder has no card"
    return derived(config, {"resize": resize, "image_size": image_size}, source)


def loss_of_guessing(labels: np.ndarray) -> float:
    """Returns the mean loss of who knows of labels, int64 [n] or float32 [n, classes], only how
    frequent they are.
    """
    shares = labels.mean(0) if labels.ndim == 2 else np.bincount(labels) / len(labels)
    shares = np.stack([shares, 1 - shares]) if labels.ndim == 2 else shares[None].T
    return float(-np.sum(shares * np.log(np.maximum(shares, 1e-9))) / shares.shape[1])


def from_labels(
    config: EfficientConfig, labels: Labels, replicas: int, guess: float
) -> tuple[EfficientConfig, str]:
    """Returns the settings with batch, length and classifier, and a line on those that were not
    given.

    Args:
      config: the settings as they are given.
      labels: those that the run may see.
      replicas: of the run.
      guess: see `loss_of_guessing`.

    Raises:
      ConfigError: a batch is larger than what it is drawn from.
    """
    count = len(labels.chosen if labels.fit is None else labels.fit)
    values = USUAL.settings(count, replicas, config.training.batch_size)
    if not config.classifier.head_width:
        blocks, values["head_width"] = next(head for least, head in HEADS.items() if count >= least)
        if config.classifier.encoder != PIXELS:
            values["head_blocks"] = blocks
    frozen = config.classifier.encoder != PIXELS and not config.sgd.patience
    # A preset's length is a protocol on its dataset; of images of one's own it is the most that is
    # needed.
    is_free = config.data.labelled or not any(config.training.length)
    if is_free and frozen and count < FEW:
        values["stop_at_loss"] = float(f"{LEARNED * guess:.2g}")
    views = min(MOST_VIEWS, ALL_VIEWS // len(labels.chosen))
    values["cached_views"] = views if views > 1 and config.classifier.encoder != PIXELS else 0
    config, line = derived(config, values, f"{len(labels.chosen)} labels")
    views = 1 if config.classifier.encoder == PIXELS else max(1, config.sgd.cached_views)
    config.training.refuse_large_batch(count * views)
    return config, line


class Inputs:
    """The images of a run, in four parts.

    'chosen' are the images whose labels may be used. A search trains on its part 'fit' and is
    scored on the rest, 'held_out'. 'test' is the test split.

    Features of a frozen encoder are encoded at the first use, which must be before the encoder is
    fine-tuned.

    Args:
      config: of the run.
      encoder: images -> feature maps.
      source, test_source: the splits to train and to test on.
      labels: which labels of `source` may be used.
      strategy: its replicas encode.
      unlabelled: with label propagation, images whose labels are not read.
      validation: what is held out in place of a part of these labels; None: that part is.
    """

    def __init__(
        self,
        config: EfficientConfig,
        encoder: LoadedEncoder,
        source: Source,
        test_source: Source,
        labels: Labels,
        strategy: tf.distribute.Strategy,
        unlabelled: Source | None = None,
        validation: Source | None = None,
    ):
        self.config = config
        self._labels = labels
        self.unlabelled = unlabelled
        self._encoder = encoder
        self._strategy = strategy
        xla = config.numerics.xla if encoder.compiles else "off"
        # A supervised network is not kept here: a search over several has room for one at a time.
        supervised = config.classifier.encoder == PIXELS
        self._encode = self._encode_means = None
        if not supervised:

            def encode_means(images: tf.Tensor) -> tf.Tensor:
                return tf.reduce_mean(encoder.encode(images), [1, 2])  # [B, h, w, D] -> [B, D]

            self._encode = on_replicas(encoder.encode, strategy, ENCODED, xla)
            self._encode_means = on_replicas(encode_means, strategy, ENCODED, xla)
        self._batch = ENCODED * strategy.num_replicas_in_sync
        self._own = own_images(strategy, ENCODED)
        self.sources = (source, test_source)
        self.class_names = source.class_names
        self.count = len(labels.chosen)
        self.kind = label_kinds.of(source.multi_label)
        # The number of labels that are held out.
        if validation:
            self.held_out = validation.num_examples
        elif labels.held_out is None:
            self.held_out = 0
        else:
            self.held_out = len(labels.held_out)
        self.score = f"held_out_{self.kind.main}"  # what settings and lengths are selected by
        self._parts = {"chosen": restricted(source, labels.chosen), "test": test_source}
        if validation:
            self._parts["held_out"] = validation
        self._encoded: dict[str, Features] = {}
        self._groups: dict[str, np.ndarray] = {}

    def with_test(self) -> Inputs:
        """Returns inputs whose 'chosen' images are all, those of the test too; nothing is chosen or
        tested by these.
        """
        source = Joined(*self.sources)
        given = self.config.sgd.cached_views
        # as many in all as there may be, or were
        most = max(ALL_VIEWS, given * self.count) // source.num_examples
        views = given
        if given > most:
            views = most if most > 1 else 0
        config = replace(self.config, cached_views=views)
        labels = Labels(np.arange(source.num_examples), None, None, 1.0)
        test_source = self.sources[1]
        made = Inputs(
            config, self._encoder, source, test_source, labels, self._strategy, self.unlabelled
        )
        made.held_out = self.held_out  # by which lengths were chosen
        return made

    def _rows(self, part: str) -> np.ndarray:
        """Returns the positions of a part among the chosen images, int64 [n]."""
        return np.searchsorted(self._labels.chosen, getattr(self._labels, part))

    def size(self, part: str) -> int:
        """Returns the number of images of a part that is trained on."""
        return len(getattr(self._labels, part))

    def images(self, source: Source) -> tf.data.Dataset:
        """Returns all images of a source in order, as `Classification.classes` takes them."""
        return self._plain(source, decoded=self._own)

    def groups(self, part: str) -> np.ndarray:
        """Returns the group of each image of a part, int64 [n], see `Source.groups`."""
        if part not in self._groups:
            self._groups[part] = self._source(part).groups()
        return self._groups[part]

    def _source(self, part: str) -> Source:
        if part not in self._parts:
            self._parts[part] = restricted(self._parts["chosen"], self._rows(part))
        return self._parts[part]

    def _is_cached(self, phase: str) -> bool:
        return phase == FROZEN and bool(self.config.sgd.cached_views)

    def training(
        self, config: EfficientConfig, phase: str, part: str
    ) -> Callable[[int, tf.distribute.InputContext], tf.data.Dataset]:
        """Returns batches of a part as `loop.train` takes them: augmented images, or features of
        some views of each.

        With label propagation, phases that train the whole network get images without labels beside
        these.

        `config` is that of the phase, which may have settings of its own.
        """
        if not self._is_cached(phase):
            source = self._source(part)
            make = functools.partial(
                pipeline.batches, source, RandomSizedCrop(), config.images, config.augment
            )
            if self.unlabelled and phase != FROZEN:
                make = with_unlabelled(make, self.unlabelled, config)
            return replica_batches(config.training, make)

        def cached(**order) -> tf.data.Dataset:
            first_rows = np.arange(config.sgd.cached_views)[:, None] * self.count
            rows = (first_rows + self._rows(part)).ravel()  # [views * images of the part]
            features = Features(self._views.latents[rows], self._views.labels[rows])
            return feature_batches(features, **order)

        return replica_batches(config.training, cached, remote=False)

    def in_order(self, phase: str, part: str) -> Iterable[dict[str, tf.Tensor]]:
        """Returns the images of a part in order, as `Classification.logits` takes them."""
        source = self._source(part)
        images = self.images(source)
        if not self._is_cached(phase):
            return images
        if part not in self._encoded:
            title = f"encoding {part.replace('_', '-')} images"
            self._encoded[part] = encode_dataset(
                images, self._encode, source.num_examples, title, "image"
            )
        latents, labels = self._encoded[part]
        batches = (
            slice(start, start + self._batch) for start in range(0, len(labels), self._batch)
        )
        return [{"latents": latents[rows], "label": labels[rows]} for rows in batches]

    def sample(self, part: str, most: int) -> tuple[np.ndarray, Features]:
        """Returns at most `most` evenly spaced images of a part, uint8 [n, S, S, 3], and their mean
        features [n, D].
        """
        source = self._source(part)
        every = -(-source.num_examples // most)
        images = self._plain(source, every)
        pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
        return pixels, encode_dataset(images, self._encode_means, len(pixels), field="image")

    def _plain(self, source: Source, every: int = 1, decoded: Select = None) -> tf.data.Dataset:
        policy = self.config.augment.policy
        return pipeline.plain_images(
            source, self.config.images, self._batch, every, policy, decoded
        )

    @functools.cached_property
    def _views(self) -> Features:
        """All views of the chosen images: view after view, each in the order of the images."""
        config = self.config
        source = self._source("chosen")
        views = config.sgd.cached_views
        seed = config.training.seed
        batches = pipeline.image_views(
            source, config.images, config.augment, self._batch, views, seed, self._own
        )
        return encode_dataset(batches, self._encode, views * self.count, "encoding images", "image")
