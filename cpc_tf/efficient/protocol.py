"""The protocol of appendix C on one set of labels: its data, its phases, and the selection on held-out labels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from cpc_tf.data import catalog, pipeline, subset
from cpc_tf.efficient import search
from cpc_tf.efficient.classifier import ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.trainee import FINE_TUNED, FROZEN, SUPERVISED, Classification
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.evaluation.features import Features, encode_dataset, feature_batches
from cpc_tf.evaluation.scores import score
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training import loop
from cpc_tf.training.workdir import Workdir

_BATCH = 128  # of what is only encoded


class Protocol:
    """One encoder, one choice of labels, and what is done with them.

    Args:
      config: of the run.
      strategy: where it runs.

    Attributes:
      chosen: places of the labels that may be seen, int64 [n].
      fraction: which part of all labels that is.
      fit, held: these in two parts, to select settings; None if that cannot be.
      first: the first phase, 'supervised' or 'frozen'.
      fine_tuning: steps of the second one at most; 0: there is none.
      class_names: of the labels.

    Raises:
      ConfigError.
    """

    def __init__(self, config: EfficientConfig, strategy: tf.distribute.Strategy):
        self.config, self.strategy = config, strategy
        data, labels, seed = config.data, config.labels, config.training.seed
        self._source = catalog.open_labelled(data, data.split, "split")
        self._test = catalog.open_labelled(data, labels.test_split, "test_split")
        self.class_names = self._source.class_names
        every = self._source.labels()
        self.chosen = subset.choose(every, self.class_names, labels.label_fraction, labels.labels_per_class, seed)
        self.fraction = len(self.chosen) / len(every) if labels.labels_per_class else labels.label_fraction
        self.fit, self.held = subset.hold_out(every, self.chosen, labels.held_out, seed) or (None, None)
        self._few = subset.restricted(self._source, self.chosen)
        self.first = SUPERVISED if config.classifier.encoder == "pixels" else FROZEN
        self.fine_tuning = config.sgd.finetune_steps if self.first == FROZEN else 0
        with strategy.scope():
            chosen = config.classifier
            self.encoder = load_feature_maps(
                chosen.encoder,
                chosen.endpoint,
                config.images.image_size,
                backbone=chosen.backbone,
                seed=seed,
                precision=config.numerics.precision,
            )
        self._untouched = _values(self.encoder.variables)
        self._features: dict[str, Features] = {}
        self._seconds: dict[str, float] = {}  # of the runs in these folders

    def select(self) -> tuple[list[dict[str, Any]], EfficientConfig]:
        """Tries settings of the first phase on the held-out labels: (a record of each, the best settings).

        Without records if there is nothing to choose: no held-out labels, or one trial and no length of fine-tuning.
        """
        tried = search.trials(self.config)
        if self.held is None or (len(tried) == 1 and not self.fine_tuning):
            return [], self.config
        records = []
        for number, settings in enumerate(tried):
            config = replace(self.config, **settings, workdir=self._folder("search", self.first, number))
            trainee = self._first_phase(config, self.fit)
            found = {"phase": self.first, **settings, **self._judge(trainee)}
            records.append({**found, "steps": int(trainee.step.numpy()), "chosen": False})
            _say(f"{self.first}, settings {number + 1} of {len(tried)}", records[-1])
        place = search.best(records)
        records[place]["chosen"] = True
        folder = self._folder("search", self.first, place)
        return records, replace(self.config, **tried[place], workdir=folder)

    def select_length(self, config: EfficientConfig) -> tuple[list[dict[str, Any]], EfficientConfig, int]:
        """Tries rates and lengths of fine-tuning on the held-out labels: (records, the best settings, steps)."""
        if self.held is None:
            return [], config, config.sgd.finetune_steps
        start = self._first_phase(config, self.fit)  # the best trial's run, which is finished: only restored
        weights = _values(start.classifier.variables)
        none = {"phase": FINE_TUNED, "encoder_rate": 0.0, **self._judge(start), "steps": 0, "chosen": False}
        records, rates = [none], config.search.numbers("search_encoder_rates") or [config.sgd.encoder_rate]
        for rate in rates:
            tried = replace(config, encoder_rate=rate, workdir=self._folder("search", FINE_TUNED, f"{rate:g}"))
            _assign(start.classifier.variables, weights)
            for look in self._fine_tune(tried, start, self.fit, config.sgd.finetune_steps, looking=True):
                records.append({"phase": FINE_TUNED, "encoder_rate": rate, **look, "chosen": False})
            _say(f"{FINE_TUNED}, encoder rate {rate:g}", records[-1])
        place = search.best(records)
        records[place]["chosen"] = True
        return (
            records,
            replace(config, encoder_rate=records[place]["encoder_rate"] or rates[0]),
            records[place]["steps"],
        )

    def first_phase(self, config: EfficientConfig) -> Classification:
        """Trains on all chosen labels: the classifier on the frozen encoder, or everything."""
        return self._first_phase(replace(config, workdir=self._folder(self.first)), self.chosen)

    def fine_tune(self, config: EfficientConfig, start: Classification, steps: int) -> Classification:
        """Goes on with the whole stack on all chosen labels."""
        config = replace(config, workdir=self._folder(FINE_TUNED))
        return self._fine_tune(config, start, self.chosen, steps, looking=False)

    def test(self, trainee: Classification) -> tuple[dict[str, float], np.ndarray, np.ndarray]:
        """(top-1, top-5 and loss, predicted classes [N], labels [N]) on the test split."""
        if self._cached and trainee.phase == FROZEN:
            batches = _in_batches(self._plain("test"))
        else:
            batches = pipeline.plain_images(self._test, self.config.images, _BATCH)
        logits, labels = trainee.logits(batches)
        return score(logits, labels), logits.argmax(1), labels

    @property
    def seconds(self) -> float:
        """How long all phases and trials have trained, over all sessions of the run."""
        return sum(self._seconds.values())

    @property
    def _cached(self) -> bool:
        return bool(self.config.sgd.cached_views) and self.first == FROZEN

    def _first_phase(self, config: EfficientConfig, places: np.ndarray) -> Classification:
        _assign(self.encoder.variables, self._untouched)
        side = config.images.image_size
        keras.utils.set_random_seed(config.training.seed)
        with self.strategy.scope():
            norm = "none" if self.first == SUPERVISED else "batch"
            head = config.classifier if self.first == FROZEN else replace(config.classifier, head_blocks=0)
            classifier = ResNetClassifier(len(self.class_names), head, norm, config.numerics.precision)
            maps = tf.function(self.encoder).get_concrete_function(tf.TensorSpec([1, side, side, 3])).structured_outputs
            classifier.build(tf.TensorShape([None, *maps.shape[1:]]))
            steps = config.training.steps(len(self.chosen))
            trainee = Classification(
                self.encoder, classifier, self.first, config.sgd, steps, config.training.seed, self.strategy,
                config.training.batch_size, config.numerics.xla,
            )  # fmt: skip
        self._train(trainee, config, places, steps)
        return trainee

    def _train(self, trainee: Classification, config: EfficientConfig, places, steps: int, **looks) -> None:
        make_dataset = self._dataset_maker(config, places, trainee.phase)
        record = loop.train(trainee, make_dataset, config.training, steps, Workdir(config), **looks)
        self._seconds[config.workdir] = record["wall_seconds"]

    def _fine_tune(self, config, start: Classification, places, steps: int, looking: bool):
        """A fine-tuned Classification or, when looking, the looks at the held-out labels on the way."""
        trainee = Classification(
            self.encoder, start.classifier, FINE_TUNED, config.sgd, config.sgd.finetune_steps, config.training.seed,
            self.strategy, config.training.batch_size, config.numerics.xla,
        )  # fmt: skip
        _assign(self.encoder.variables, self._untouched)
        looks = {"probe": lambda: self._judge(trainee), "probe_every": config.sgd.look_every} if looking else {}
        self._train(trainee, config, places, steps, **looks)
        if not looking:
            return trainee
        names = ("held_out_top1", "held_out_loss")
        found = [record for record in Workdir(config).metrics() if names[0] in record]
        return [{**{name: record[name] for name in names}, "steps": record["step"]} for record in found]

    def _judge(self, trainee: Classification) -> dict[str, float]:
        """How a classifier does on the held-out labels."""
        if self._cached and trainee.phase == FROZEN:
            batches = _in_batches(self._plain("held"))
        else:
            batches = pipeline.plain_images(self._held_source(), self.config.images, _BATCH)
        found = score(*trainee.logits(batches))
        return {"held_out_top1": found["top1"], "held_out_loss": found["loss"]}

    def _held_source(self):
        return subset.restricted(self._few, np.searchsorted(self.chosen, self.held))

    def _plain(self, part: str) -> Features:
        """The test's or the held-out images, encoded once."""
        if part not in self._features:
            source = self._test if part == "test" else self._held_source()
            batches = pipeline.plain_images(source, self.config.images, _BATCH)
            self._features[part] = encode_dataset(
                batches, self.encoder.encode, source.num_examples, f"encoding {part} images", "image"
            )
        return self._features[part]

    def _views(self) -> Features:
        """All views of the chosen images, encoded once: view after view, each in the order of the chosen."""
        if "views" not in self._features:
            views = self.config.sgd.cached_views
            batches = pipeline.image_views(
                self._few, self.config.images, self.config.augment, _BATCH, views, self.config.training.seed
            )
            count = views * len(self.chosen)
            self._features["views"] = encode_dataset(batches, self.encoder.encode, count, "encoding images", "image")
        return self._features["views"]

    def _dataset_maker(self, config: EfficientConfig, places: np.ndarray, phase: str):
        """(step, input context) -> batches of augmented images, or of the maps of some views of them."""
        training = config.training
        within = np.searchsorted(self.chosen, places)

        def images(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
            return pipeline.images(
                subset.restricted(self._few, within),
                config.images,
                config.augment,
                global_batch=training.batch_size,
                per_batch=context.get_per_replica_batch_size(training.batch_size),
                seed=training.seed,
                start_step=step,
                shard=(context.input_pipeline_id, context.num_input_pipelines),
            )

        def cached(step: int, context: tf.distribute.InputContext) -> tf.data.Dataset:
            views = config.sgd.cached_views
            if context.num_replicas_in_sync > 1:
                raise ConfigError(
                    f"--cached_views={views}: works on one device; add --strategy=single or --cached_views=0"
                )
            every = self._views()
            rows = (np.arange(views)[:, None] * len(self.chosen) + within).ravel()
            taken = Features(every.latents[rows], every.labels[rows])
            return feature_batches(taken, training.batch_size, training.seed, step)

        return cached if self._cached and phase == FROZEN else images

    def _folder(self, *names) -> str:
        return os.path.join(self.config.workdir, *map(str, names))


def _values(variables) -> list[np.ndarray]:
    return [variable.numpy() for variable in variables]


def _assign(variables, values) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)


def _in_batches(features: Features):
    for start in range(0, len(features.labels), _BATCH):
        part = slice(start, start + _BATCH)
        yield {"latents": features.latents[part], "label": features.labels[part]}


def _say(title: str, record: dict[str, Any]) -> None:
    print(f"{title}: held-out top-1 {100 * record['held_out_top1']:.1f} %", flush=True)
