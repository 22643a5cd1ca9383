"""The logistic regression of `cpc-tf classify`: encode, cross-validate, train on all labels, write
the run.

The encoder stays as it is, so that each image is encoded once. What the classifier is worth is told
by cross-validation: each image is judged by classifiers that have not seen it.
"""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from cpc_tf.classify import choice as comparison
from cpc_tf.classify import folds, logistic, random_sample
from cpc_tf.classify.accuracy import Accuracy
from cpc_tf.classify.advice import another_encoder
from cpc_tf.classify.choice import Choice, candidates, choose
from cpc_tf.classify.config import BALANCED, ClassifyConfig
from cpc_tf.classify.logistic import Forecast, LabelledFeatures
from cpc_tf.core.progress import Progress, waiting_for
from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed
from cpc_tf.data import catalog, folder
from cpc_tf.data.pool import open_pool, open_rest
from cpc_tf.data.source import Source, restricted
from cpc_tf.encoders import feature_cache
from cpc_tf.encoders.card import parted
from cpc_tf.encoders.config import PIXELS
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.side_by_side import joined, open_encoders
from cpc_tf.evaluation import counts, label_kinds
from cpc_tf.evaluation.label_kinds import LabelKind
from cpc_tf.evaluation.predictions import PREDICTIONS, predictions_csv
from cpc_tf.evaluation.scores import calibration, guesses
from cpc_tf.training.workdir import Workdir

WEIGHTS = "logistic.npz"  # in the directory
LABEL_SEED = 0  # of the random sample of the label page, whose --seed is 0 if it is not given
FINE_TUNING_PAYS = 500  # labels; docs/results.md: with 475 it brings 1 point, with 947 3 points
Tell = Callable[[str], None]


def learn(config: ClassifyConfig, workdir: Workdir | None, tell: Tell) -> dict[str, Any]:
    """Trains a classifier on all labels and measures it.

    Args:
      config: the settings.
      workdir: directory that gets the run, in place of an earlier one; None: nothing is written.
      tell: gets lines for the user.

    Returns:
      The content of result.json.

    Raises:
      ConfigError: the data or the encoder cannot be used, or there are fewer than two classes.
      NotWritten: something cannot be written.
    """
    source = catalog.open_labelled(config.data, config.data.split, "split")
    if bare := source.about.bare:
        # Whether these teach the classifier is said when it is known, see `described`.
        source.about = source.about._replace(notes=(*source.about.notes, bare), bare="")
    tell(catalog.summarized(config.data, [catalog.summary_of("split", config.data.split, source)]))
    encoders = open_encoders(config.encoder, config.seed, config.image_size, config.endpoint)
    together = joined(encoders)
    source.intensity_range = together.intensity_range or source.intensity_range
    tell(f"features: {together.what}")
    kind = label_kinds.of(source.multi_label)
    pool = _unlabelled(config, source, kind)
    accepted = np.zeros(source.num_examples, bool)
    if isinstance(source, folder.FolderSource):
        accepted = source.accepted()
    each = []
    for encoder in encoders:
        features = _encoded(encoder, source, config.batch_size)
        examples = LabelledFeatures(
            features, source.labels(), source.groups(), len(source.class_names)
        )
        if pool:
            examples = examples._replace(unlabelled=_encoded(encoder, pool, config.batch_size))
        each.append(by_people(examples, accepted, config, kind))
    person = np.flatnonzero(~accepted)
    choice, result, classifier, predictions = _learned(config, source, encoders, each, kind, person)
    if accepted.any():
        result["accepted_guesses"] = int(accepted.sum())
    for line in described(result, config):
        tell(line)
    if config.curve:
        from cpc_tf.classify.curve import label_curve

        with _clocked("label curve") as advance:
            result["curve"] = label_curve(
                config, restricted(source, person), choice.candidate, kind, workdir, advance
            )
        tell(f"{workdir.path}/curve.png: the accuracy by the number of labels")
    return _write(workdir, result, classifier, predictions) if workdir else result


def by_people(
    examples: LabelledFeatures, accepted: np.ndarray, config: ClassifyConfig, kind: LabelKind
) -> LabelledFeatures:
    """Returns the examples with labels of people; images of accepted guesses are among those
    without labels.

    A guess says what a classifier of these labels believed already. Learned as a label it would
    carry that into the folds, and the stated accuracy would be too high.

    Raises:
      ConfigError: people gave labels of fewer than two classes.
    """
    taught = examples.take(np.flatnonzero(~accepted))
    if not accepted.any():
        return taught
    if len(np.unique(taught.labels, axis=0)) < 2:
        raise ConfigError(
            "labels",
            config.data.labels,
            f"all but {len(taught.labels)} of its labels are accepted guesses (by=model),"
            " which are not learned from; label images of two classes yourself",
        )
    if (
        not config.most_unlabelled
        or kind is not label_kinds.SINGLE_LABEL
        or len(taught.labels) > logistic.FEW
    ):
        return taught
    others = [] if examples.unlabelled is None else [examples.unlabelled]
    return taught._replace(unlabelled=np.concatenate([examples.features[accepted], *others]))


@contextlib.contextmanager
def _clocked(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function (done, total) that sets the progress, which is shown with the time left if
    it takes long.
    """
    progress = Progress(0)

    def advance(done: int, of: int) -> None:
        progress.total = of
        progress.update(done)

    with waiting_for(what, progress):
        yield advance


def _unlabelled(config: ClassifyConfig, source: Source, kind: LabelKind) -> Source | None:
    """Returns the unlabelled images for self-training; None if there are none, or enough labelled
    ones.
    """
    if (
        not config.most_unlabelled
        or kind is not label_kinds.SINGLE_LABEL
        or source.num_examples > logistic.FEW
    ):
        return None
    if config.data.folders:
        pool = open_pool(config.data, "unlabelled")
        # all images are seen alike
        pool.intensity_range = source.intensity_range or pool.intensity_range
        chosen = np.random.default_rng(config.seed).permutation(pool.num_examples)[
            : config.most_unlabelled
        ]
        return restricted(pool, np.sort(chosen))
    is_folder = isinstance(source, folder.FolderSource)
    return (
        open_rest(config.data, config.data.split, source, config.most_unlabelled)
        if is_folder
        else None
    )


def _encoded(encoder: Encoder, source: Source, batch_size: int) -> np.ndarray:
    """Returns the features float32 [N, D] of all images of a source; those of files in a folder are
    cached.
    """
    if not isinstance(source, folder.FolderSource):
        with _clocked("encoding images") as advance:
            return encoder.encode_source(
                source, batch_size, lambda done: advance(done, source.num_examples)
            )
    table = source.table
    names = source.names()
    paths = table.paths[source.rows]
    cached = feature_cache.encoded(encoder, table.root, paths, source.intensity_range, batch_size)
    if cached.broken:
        broken = listed([f"{names[i]} ({why})" for i, why in cached.broken.items()])
        raise ConfigError(f"{table.flag}: files that were readable before cannot be read: {broken}")
    return cached.features[cached.rows]


def _learned(
    config: ClassifyConfig,
    source: Source,
    encoders: Sequence[Encoder],
    each: Sequence[LabelledFeatures],
    kind: LabelKind,
    rows: np.ndarray,
) -> tuple[Choice, dict[str, Any], logistic.Linear, str]:
    """Returns the choice among the encoders, the content of result.json, the classifier of all
    labels of people, and the content of predictions.csv.

    `each` has the examples by each encoder; `rows` are the examples among the images of the source.
    """
    # Cross-validate.
    balanced = config.class_weights == BALANCED
    with _clocked("cross-validation") as advance:
        choice = choose(
            candidates(encoders, each),
            encoders[0],
            kind,
            _drawn(source, rows),
            balanced,
            config.seed,
            advance,
        )
    encoder, examples = choice.candidate
    judged = choice.accuracy

    # Train on all labels, as it turned out to be best.
    with waiting_for("the classifier trained on all labels"):
        if judged is None:
            classifier = logistic.fit(examples, logistic.USUAL, balanced)
        else:
            classifier = logistic.fit(
                examples, judged.validated.strength, balanced, judged.validated.self_training
            )

    # Say what it is.
    count = len(examples.features)
    result: dict[str, Any] = {
        "encoder": encoder.path if len(encoders) > 1 else config.encoder,
        "identity": encoder.identity.to_json(),
        "dataset": config.data.origin,
        "num_classes": examples.classes,
        "class_names": source.class_names,
        "num_train_labels": count,
        "label_fraction": 1.0,
        "levels": source.intensity_range,
        "seed": config.seed,
    }
    if source.multi_label:
        result["multi_label"] = True
    if len(encoders) > 1:
        result["encoders"] = [compared._asdict() for compared in choice.compared]
    if judged is None:
        return choice, result, classifier, ""

    # Say what it is worth.
    validated = judged.validated
    tested = judged.tested
    all_names = source.names()
    names = [all_names[row] for row in rows]
    logits = validated.logits[tested]
    labels = examples.labels[tested]
    result |= judged.score(kind, examples.labels)
    result |= {
        "classes": kind.classes(logits, labels, source.class_names),
        "calibration": calibration(*kind.choices(logits, labels), count, validated.temperature),
        "cross_validation": {
            name: getattr(validated, name) for name in ("folds", "repeats", "strength")
        },
        "at_random": judged.at_random,
        "not_learned": _not_learned(examples, judged, source.class_names),
        "nearly_the_same": len(names) - len(np.unique(judged.near)),
        "conflicts": [[names[i], names[j]] for i, j in judged.conflicts(examples.labels)],
    }
    if isinstance(source, folder.FolderSource) and source.table.by_page:
        result["labels_by_page"] = True
    if examples.unlabelled is not None:
        result["unlabelled"] = {
            "pictures": len(examples.unlabelled),
            "learned_from": validated.self_training,
        }
    if kind is label_kinds.SINGLE_LABEL:
        halved = validated.halved[tested]
        forecast = logistic.forecast(guesses(logits) == labels, guesses(halved) == labels)
        result["forecast"] = {**forecast._asdict(), "tells": forecast.tells}
    tested_names = [name for name, is_tested in zip(names, tested) if is_tested]
    return (
        choice,
        result,
        classifier,
        predictions_csv(tested_names, logits, labels, source.class_names, kind),
    )


def _drawn(source: Source, rows: np.ndarray) -> np.ndarray | None:
    """Returns which of some images of a source the label page drew at random, bool [rows]; None if
    it drew none.
    """
    if not isinstance(source, folder.FolderSource) or not source.table.by_page:
        return None
    sample = random_sample.of(source.table.names.tolist(), LABEL_SEED)
    row_in_table = source.rows[rows]
    return np.isin(row_in_table, random_sample.drawn(sample, row_in_table))


def _not_learned(
    examples: LabelledFeatures, judged: Accuracy, class_names: Sequence[str]
) -> list[str]:
    """Returns the classes whose images are all of one group: they are never learned when they are
    tested.
    """
    names = []
    if examples.labels.ndim > 1:
        return names
    for number in np.unique(examples.labels):
        if len(np.unique(judged.groups[examples.labels == number])) == 1:
            names.append(class_names[number])
    return names


def described(result: dict[str, Any], config: ClassifyConfig) -> Iterator[str]:
    """Yields lines for the user that explain a result."""
    kind = label_kinds.of_result(result)
    labels = result["num_train_labels"]
    if accepted := result.get("accepted_guesses"):
        yield (
            f"{accepted:,} accepted guesses (by=model) count as unlabelled images: they repeat what"
            f" a classifier of the {labels:,} labels by people believed"
        )
    if compared := result.get("encoders"):
        yield from comparison.described(compared, kind)
    elif compared is not None:
        yield f"too few labels to choose an encoder: the first is used, {result['encoder']}"
    if "cross_validation" not in result:
        yield (
            f"accuracy: not measured, since most classes have fewer than {folds.LEAST} images, or"
            " groups of images that belong together; label more"
        )
        return
    if pool := result.get("unlabelled"):
        if pool["learned_from"]:
            used = "used for self-training"
        else:
            used = "not used, since self-training does not improve the cross-validated accuracy"
        yield f"{pool['pictures']:,} unlabelled images: {used}"
    if near := result["nearly_the_same"]:
        yield (
            f"{near:,} images are near copies of others: held out together with them, and counted"
            " once in the interval"
        )
    if conflicts := result["conflicts"]:
        pairs = ", ".join(f"{name} ({other})" for name, other in conflicts[:3])
        yield (
            f"{len(conflicts):,} images have a different class from a near copy of"
            f" them, e.g. {pairs}"
        )
    where = (
        f", on the {result['tested']} images that the label page drew at random"
        if result["at_random"]
        else ""
    )
    yield f"by cross-validation{where}: {kind.described(result)}"
    if result.get("labels_by_page") and not result["at_random"]:
        yield (
            f"the label page drew fewer than {random_sample.LEAST} of these images at random and"
            " chose the others: the accuracy on new images may differ"
        )
    yield from kind.remarks(result)
    if result["at_random"] and result["tested"] < counts.FEW and result.get("unlabelled"):
        yield (
            "to narrow the interval, label more images on the label page: one in"
            f" {random_sample.PART} is drawn at random"
        )
    if names := result["not_learned"]:
        others = [count for name, count in result["classes"].items() if name not in names]
        right = sum(count["right"] for count in others)
        tested = sum(count["tested"] for count in others)
        rest = f"; of the other classes {right} of {tested} are right" if tested else ""
        yield (
            "counted as wrong: classes with one image or group, which cannot be learned while it is"
            f" tested: {listed(names)}{rest}"
        )
    if forecast := result.get("forecast"):
        if forecast["tells"]:
            gain = 100 * forecast["gain"]
            yield (
                f"{2 * labels:,} labels may give about {gain:.0f} points more, by extending the"
                " learning curve"
            )
        else:
            yield f"the gain from {2 * labels:,} labels cannot be estimated from {labels:,}"
        doubled = Forecast(*(forecast[name] for name in Forecast._fields))
        yield from another_encoder(result, doubled, labels, config.encoder)
    if labels >= FINE_TUNING_PAYS and parted(result["encoder"]) == [result["encoder"]] != [PIXELS]:
        data = " ".join(
            f"--{name}={shlex.quote(value)}"
            for name, value in (("labelled", config.data.labelled), ("labels", config.data.labels))
            if value
        )
        command = (
            f"cpc-tf efficient --encoder={shlex.quote(result['encoder'])} {data}"
            " --workdir=runs/mine/efficient"
        )
        yield (
            f"with {labels:,} labels, fine-tuning the encoder (hours) may give a few points more:"
            f" {command}"
        )


def _write(
    workdir: Workdir, result: dict[str, Any], classifier: logistic.Linear, predictions: str
) -> dict[str, Any]:
    """Writes the files of a run, in place of those of an earlier one, and returns the content of
    result.json.
    """
    stream = io.BytesIO()
    np.savez(stream, **classifier._asdict())
    workdir.begin(0)
    workdir.write(WEIGHTS, stream.getvalue())
    if predictions:
        workdir.write(PREDICTIONS, predictions)
    return workdir.finish(result)
