"""The linear protocol (appendix B): trains a classifier on a frozen encoder, and one on each of two
baselines.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from cpc_tf.augment.config import AugmentConfig, warn_of_colour
from cpc_tf.core.files import read_text, write_file
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.config import GeometryConfig
from cpc_tf.data.pipeline import fetching
from cpc_tf.data.source import Source
from cpc_tf.data.views import PatchGrid
from cpc_tf.encoders.card import COPY, EncoderCard, EncoderName, Identity
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.inference import encode_dataset, feature_batches, on_replicas, own_images
from cpc_tf.evaluation.predictions import PREDICTIONS, predictions_csv
from cpc_tf.evaluation.scores import calibration
from cpc_tf.linear import picture
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import AS_ENCODER, BY_CHANNEL, LinearConfig
from cpc_tf.training import loop
from cpc_tf.training.config import UsualTraining
from cpc_tf.training.kept_data import keep_data
from cpc_tf.training.session import open_run
from cpc_tf.training.strategy import is_chief, replica_batches, wants_xla
from cpc_tf.training.workdir import Workdir

# The paper's batch and length on all of ImageNet. So few steps as 400 are enough for a linear layer
# on 80 labels.
USUAL = UsualTraining(batch=512, epochs=200, least_steps=400)
# titles in table and image, beside PIXELS
ENCODER = "encoder"
RANDOM = "random encoder"


def linear(config: LinearConfig) -> dict[str, Any]:
    """Trains and tests the classifiers, prints a table of them, and returns the result on the
    encoder.

    Of several workers, only the chief draws, writes and prints. What is finished is not tested
    again: a classifier's result is read, and the table of a whole run.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    results = {}
    neighbours_of = {}
    chief = is_chief(config.training.strategy)

    # first called inside a run: workers of a cluster must set up their devices before
    @functools.cache
    def data() -> catalog.Pair:
        pair = catalog.open_pair(config.data, config.probe.test_split)
        if chief:
            print(pair.summary, flush=True)
        return pair

    # Refuses a module whose card lacks it, before anything is opened.
    augmentation = augment_of(config)
    if chief:
        warn_of_geometry(config)
        if config.augment.augment == AS_ENCODER:
            print(
                f"--augment=encoder: {augmentation.title}, as in the encoder's pre-training",
                flush=True,
            )
        if augmentation.policy.always_grey:
            print("all images are made grey, also in the test", flush=True)
    settings_of = classifiers(config)
    if finished := _finished(config, settings_of, data):
        if chief:
            print(
                f"{config.workdir}: already finished\n\n{table(finished)}\n\nresults and image:"
                f" {config.workdir}"
            )
        return finished[ENCODER]
    for title, settings in settings_of.items():
        if chief:
            print(f"linear classifier on {title}", flush=True)
        results[title], neighbours = train_and_test(settings, data)
        if neighbours:
            neighbours_of[title] = neighbours
    if chief:
        _draw(config, results, neighbours_of, data())
        write_file(os.path.join(config.workdir, "table.txt"), table(results) + "\n")
        print(f"\n{table(results)}\n\nresults and image: {config.workdir}")
    return results[ENCODER]


def _draw(
    config: LinearConfig,
    results: dict[str, Any],
    neighbours_of: dict[str, picture.Neighbours],
    data: catalog.Pair,
) -> None:
    """Draws the neighbours by each encoder, a map of test images by the first one's features, and
    its predictions.
    """
    from cpc_tf.drawing import map as embedding_map  # here: a training does not need Matplotlib
    from cpc_tf.drawing import predictions as sheet

    names = data.source.class_names
    if neighbours_of:  # raw pixels alone have none
        write_file(
            os.path.join(config.workdir, "linear.png"), picture.draw(results, neighbours_of, names)
        )
    if ENCODER in neighbours_of:
        test = neighbours_of[ENCODER]
        embedding_map.write(config.workdir, test.features, test.images, test.labels, names)
    sheet.write_sheet(config.workdir, data.test_source, geometry_of(config))


def _finished(
    config: LinearConfig, settings_of: dict[str, LinearConfig], data: Callable[[], catalog.Pair]
) -> dict[str, dict[str, Any]]:
    """Returns the results of all classifiers if the run has all of them and their table, written
    last; else {}.
    """
    path = os.path.join(config.workdir, "table.txt")
    if not tf.io.gfile.exists(path) or not Workdir(config, "linear").result(_is_whole):
        return {}
    with open_run(config, "linear") as (workdir, strategy):
        keep_data(workdir, strategy, _splits(data()))
        results = {
            title: Workdir(settings, "linear").result(_is_whole)
            for title, settings in settings_of.items()
        }
        return results if all(results.values()) and read_text(path) == f"{table(results)}\n" else {}


def _splits(data: catalog.Pair) -> dict[str, Source]:
    return {"split": data.source, "test_split": data.test_source}


def _is_whole(result: dict[str, Any]) -> bool:
    return {label_kinds.of_result(result).main, "num_classes"} <= result.keys()


def classifiers(config: LinearConfig) -> dict[str, LinearConfig]:
    """Returns {title: settings} of the encoder's classifier and, unless it is a baseline itself, of
    the baselines'.
    """
    settings_of = {ENCODER: config}
    name = EncoderName.parse(config.probe.encoder)
    if config.probe.baselines and not name.is_new:
        card_of(config)  # refuses a module without an untrained copy before the training, not after
        same = {
            "baselines": False,
            "geometry_from": "flags",
            **vars(geometry_of(config)),
            **vars(augment_of(config)),
        }
        for title, encoder, folder in (
            (RANDOM, COPY + (name.network or name.module), "random"),
            (PIXELS, PIXELS, "pixels"),
        ):
            settings_of[title] = replace(
                config, encoder=encoder, workdir=os.path.join(config.workdir, folder), **same
            )
    return settings_of


def train_and_test(
    config: LinearConfig, data: Callable[[], catalog.Pair]
) -> tuple[dict[str, Any], picture.Neighbours | None]:
    """Trains and tests one classifier on `data()`; a finished one is neither trained nor tested
    again.

    Returns:
      Its result, which is also in result.json, and the neighbours by its encoder; None of raw
      pixels.

    Raises:
      ConfigError, loop.Stopped, loop.Diverged.
    """
    with open_run(config, "linear") as (workdir, strategy):
        source = data().source
        keep_data(workdir, strategy, _splits(data()))
        config = workdir.usual(USUAL, source.num_examples, strategy, config.probe.cached_views)
        training = config.training
        geometry = geometry_of(config)
        policy = augment_of(config).policy
        with strategy.scope():
            encoder = load_patch_encoder(
                config.probe.encoder,
                training.seed,
                geometry.patch_size,
                config.numerics.precision,
                wants_xla(config.numerics.xla, strategy),
                signature=config.probe.signature,
                endpoint=config.probe.endpoint,
            )
        if not policy.always_grey:
            warn_of_colour(encoder.text, encoder.learned.augment, encoder.learned.augment_changes)
        encode = encoder.patch_latents
        patch = geometry.patch_size
        grid = geometry.grid
        patches = tf.TensorSpec([1, grid, grid, patch, patch, 3], tf.uint8)
        latent_shape = encode.get_concrete_function(patches).structured_outputs.shape[1:]
        numerics = {} if encoder.compiles else {"xla": "off"}
        kind = label_kinds.of(source.multi_label)
        classes = len(source.class_names)
        trainee = LinearTraining(
            replace(config, **numerics), encode, latent_shape, classes, strategy, kind
        )
        result = workdir.result(_is_whole)
        if result is None:
            result = _trained(config, workdir, trainee, data(), encoder.identity)
        else:
            print(f"{workdir.path}: already finished", flush=True)
        if config.probe.encoder == PIXELS:
            return result, None
        return result, picture.neighbours(
            trainee.encode, strategy, trainee.rows, geometry, policy, data()
        )


def _trained(
    config: LinearConfig,
    workdir: Workdir,
    trainee: LinearTraining,
    data: catalog.Pair,
    identity: Identity,
) -> dict[str, Any]:
    """Trains and tests a classifier; returns the content of result.json."""
    # The batches, of features that are encoded once or of images.
    source = data.source
    test_source = data.test_source
    training = config.training
    strategy = trainee.strategy
    geometry = geometry_of(config)
    augmentation = augment_of(config)
    views = config.probe.cached_views
    decoded = own_images(strategy, trainee.rows)
    augmented = functools.partial(pipeline.batches, source, PatchGrid(), geometry, augmentation)

    def cached(**order) -> tf.data.Dataset:
        batches = augmented(global_batch=training.batch_size, seed=training.seed, decoded=decoded)
        encode = on_replicas(trainee.encode, strategy, trainee.rows)
        features = encode_dataset(
            batches, encode, views * source.num_examples, "encoding training images"
        )
        return feature_batches(features, **order)

    batches = replica_batches(training, cached if views else augmented, remote=not views)

    # Training and test.
    with fetching(source, test_source):
        outcome = loop.train(
            trainee, batches, training, training.steps(source.num_examples), workdir
        )
        policy = augmentation.policy
        patches = pipeline.plain_patches(
            test_source, geometry, training.batch_size, policy=policy, decoded=decoded
        )
        logits, labels, *of_channels = trainee.test(patches, by_channel=policy.always_one_channel)
    tested = (logits, labels)
    groups = test_source.groups()
    scores = trainee.kind.score(*tested, groups)
    loop.refuse_divergence(scores, config)

    # The files of the run.
    kind = trainee.kind
    names = source.class_names
    by_channel = {}
    if of_channels:
        by_channel = {BY_CHANNEL: kind.score(*of_channels, labels, groups)}
    multi_label = {"multi_label": True} if source.multi_label else {}
    workdir.write(PREDICTIONS, predictions_csv(test_source.names(), *tested, names, kind))
    return workdir.finish(
        {
            "encoder": config.probe.encoder,
            "identity": identity.to_json(),
            "dataset": config.data.origin,
            "test_split": config.probe.test_split,
            "num_classes": len(names),
            "class_names": names,
            "num_train_labels": source.num_examples,
            "label_fraction": 1.0,
            "levels": source.intensity_range,
            "seed": training.seed,
            **scores,
            **by_channel,
            "classes": kind.classes(*tested, names),
            **multi_label,
            # No temperature: all labels were learned from.
            "calibration": calibration(*kind.choices(*tested)),
            "steps": outcome.step,
            "wall_seconds": outcome.seconds,
        }
    )


def geometry_of(config: LinearConfig) -> GeometryConfig:
    """Returns how images are cut into patches: by the flags, or by the module's encoder.json and
    --nomirror.
    """
    if config.probe.geometry_from == "flags":
        return GeometryConfig(**vars(config.geometry))
    geometry = card_of(config).geometry
    return dataclasses.replace(geometry, mirror=geometry.mirror and config.geometry.mirror)


def augment_of(config: LinearConfig) -> AugmentConfig:
    """Returns the augmentation of the training: by the flags, or as in the encoder's pre-training.

    Raises ConfigError if the module's encoder.json does not tell.
    """
    flags = config.augment
    engine = config.augment.augment_engine
    if flags.augment != AS_ENCODER:
        return AugmentConfig(flags.augment, flags.augment_changes, engine)
    name = config.probe.encoder
    instead = "name a policy, e.g. --augment=full, the paper's, or --augment=none"
    if name == PIXELS:
        raise ConfigError(
            "encoder", PIXELS, f"has no pre-training whose augmentation it could take; {instead}"
        )
    training = EncoderName.parse(name).card(instead).training
    if training.augment is None:
        raise ConfigError(
            "encoder", name, f"its encoder.json does not record the augmentation; {instead}"
        )
    return AugmentConfig(training.augment, training.augment_changes or "", engine)


def warn_of_geometry(config: LinearConfig) -> None:
    """Logs one line for each flag of the geometry that encoder.json contradicts."""
    if config.probe.geometry_from == "flags":
        return
    geometry = card_of(config).geometry
    if geometry.mirror and not config.geometry.mirror:
        logging.warning(
            "--nomirror: training images are not mirrored, though those of the encoder's"
            " pre-training were"
        )
    elif config.geometry.mirror and not geometry.mirror:
        logging.warning(
            "training images are not mirrored, since those of the encoder's pre-training were not; "
            "--geometry_from=flags takes --mirror, and the rest, from the flags"
        )
    for field in dataclasses.fields(GeometryConfig):
        name = field.name
        flag = getattr(config.geometry, name)
        used = getattr(geometry, name)
        if name != "mirror" and flag not in (field.default, used):
            logging.warning(
                f"--{name}={flag}: not used, since --geometry_from=encoder takes {used} from the"
                " module's encoder.json; --geometry_from=flags uses the flags"
            )


def card_of(config: LinearConfig) -> EncoderCard:
    """Returns the encoder.json of the module. Raises ConfigError if it has none."""
    return EncoderName.parse(config.probe.encoder).card(
        "it needs --geometry_from=flags, --nobaselines and a policy as --augment, e.g. full"
    )


def table(results: dict[str, dict]) -> str:
    """Returns the scores as lines of text, chance at the end; below, remarks on the first
    result.
    """
    first = next(iter(results.values()))
    kind = label_kinds.of_result(first)
    classes = first["num_classes"]
    names = {name: title for name, title in kind.score_names.items() if name in first}
    rows = {}
    for title, result in results.items():
        rows[title] = [result[name] for name in names]
    chances = {"map": first.get("map_chance"), "top1": 1 / classes, "top5": 5 / classes}
    rows["chance"] = [chances[name] for name in names if name in chances]
    widths = [max(8, len(title) + 2) for title in names.values()]
    header = [f"{name:>{width}}" for name, width in zip(names.values(), widths)]
    lines = [f"{'linear classifier on':24}" + "".join(header)]
    for title, row in rows.items():
        cells = [f"{100 * value:{width - 1}.1f}%" for value, width in zip(row, widths)]
        lines.append(f"{title:24}" + "".join(cells))
    for title, result in results.items():
        if label_kinds.is_small_test(result):
            lines.append(f"{title}: {kind.described(result)}")
    for title, result in results.items():
        if BY_CHANNEL in result:  # one channel of three, as in the training
            values = result[BY_CHANNEL]
            words = [f"{shown} {100 * values[name]:.1f}%" for name, shown in names.items()]
            lines.append(f"{title}, one channel at a time: {'  '.join(words)}")
    return "\n".join([*lines, *label_kinds.meanings(first), *kind.remarks(first)])
