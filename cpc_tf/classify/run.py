"""The logistic regression of `cpc-tf classify`: encode, cross-validate, train on all labels, write the run.

The encoder stays as it is, so that each picture is encoded once. What the classifier is worth is told by
cross-validation: each picture is judged by classifiers that have not seen it.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

import cpc_tf
from cpc_tf.classify import logistic
from cpc_tf.classify.config import BALANCED, ClassifyConfig
from cpc_tf.classify.curve import label_curve
from cpc_tf.classify.features import PictureEncoder
from cpc_tf.classify.logistic import Examples
from cpc_tf.data import catalog, folder
from cpc_tf.data.source import Source, restricted
from cpc_tf.encoders.config import PIXELS
from cpc_tf.evaluation import label_kinds
from cpc_tf.evaluation.label_kinds import PREDICTIONS, LabelKind, predictions_csv
from cpc_tf.evaluation.scores import calibration
from cpc_tf.files import to_json, write_file
from cpc_tf.progress import Progress, waiting_for
from cpc_tf.settings import to_flagfile
from cpc_tf.texts import listed
from cpc_tf.training import provenance

WEIGHTS, FEATURES = "logistic.npz", "features.npz"  # in the directory
FINE_TUNING_PAYS = 500  # labels; docs/results.md: with 475 it brings 1 point, with 947 3 points
Tell = Callable[[str], None]


def learn(config: ClassifyConfig, workdir: str, tell: Tell) -> dict[str, Any]:
    """Trains a classifier on all labels and measures it.

    Args:
      config: the settings.
      workdir: directory that gets the run, in place of an earlier one; '': nothing is written.
      tell: gets lines for the user.

    Returns:
      The content of result.json.

    Raises:
      ConfigError: the data or the encoder cannot be used, or there are fewer than two classes.
      NotWritten: something cannot be written.
    """
    source = catalog.open_labelled(config.data, config.data.split, "split")
    tell(catalog.summarized(config.data, [catalog.used_of("split", config.data.split, source)]))
    encoder = PictureEncoder(config.encoder, config.endpoint, config.image_size, config.seed)
    source.intensity_range = encoder.intensity_range or source.intensity_range
    tell(f"features: {encoder.what}")
    kind = label_kinds.of(source.multi_label)
    features = _encoded(encoder, source, config, workdir)
    examples = Examples(features, source.labels(), source.groups(), len(source.class_names))
    if pool := _unlabelled(config, source, kind):
        tell(f"{pool.num_examples:,} pictures without labels are encoded, too")
        examples = examples._replace(unlabelled=_encoded(encoder, pool, config, workdir))
    accepted = source.accepted() if isinstance(source, folder.FolderSource) else np.zeros(len(features), bool)
    person = np.flatnonzero(~accepted)  # what is measured is measured on labels that a person gave
    result, classifier, predictions = _learned(config, source, encoder, examples, kind, person)
    for line in described(result, config):
        tell(line)
    if config.curve:
        with _clocked("label curve") as advance:
            given = restricted(source, person), examples.take(person)
            result["curve"] = label_curve(config, *given, kind, workdir, advance)
        tell(f"{workdir}/curve.png: the accuracy by the number of labels")
    if workdir:
        _write(config, workdir, result, classifier, predictions)
    return result


@contextlib.contextmanager
def _clocked(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function (done, total) that sets the progress, which is shown with the time left if it takes long."""
    progress = Progress(0)

    def advance(done: int, of: int) -> None:
        progress.total = of
        progress.update(done)

    with waiting_for(what, progress):
        yield advance


def _unlabelled(config: ClassifyConfig, source: Source, kind: LabelKind) -> Source | None:
    """Returns the unlabelled pictures for self-training; None if there are none, or enough labelled ones."""
    if not config.most_unlabelled or kind is not label_kinds.SINGLE_LABEL or source.num_examples > logistic.FEW:
        return None
    if config.data.folders:
        pool = folder.open_pool(config.data, "unlabelled")
        pool.intensity_range = source.intensity_range or pool.intensity_range  # all pictures are seen alike
        chosen = np.random.default_rng(config.seed).permutation(pool.num_examples)[: config.most_unlabelled]
        return restricted(pool, np.sort(chosen))
    is_folder = isinstance(source, folder.FolderSource)
    return folder.open_rest(config.data, config.data.split, source, config.most_unlabelled) if is_folder else None


def _encoded(encoder: PictureEncoder, source: Source, config: ClassifyConfig, workdir: str) -> np.ndarray:
    """Returns the features float32 [N, D] of all pictures of a source.

    Features of files in a folder are cached in the directory, so that a run with more labels encodes new files only.
    """
    names: list[str] = []
    if isinstance(source, folder.FolderSource):
        stats = source.table.stats[source.rows].tolist()
        names = [f"{source.table.root}/{name} {size} {time}" for name, (size, time) in zip(source.names(), stats)]
    path, before = os.path.join(workdir, FEATURES), {}
    view = f"{encoder.digest} {source.intensity_range}"
    # Without such a file, or with a damaged one, they are made again.
    with contextlib.suppress(tf.errors.OpError, OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        with tf.io.gfile.GFile(path, "rb") as file:
            arrays = np.load(io.BytesIO(file.read()), allow_pickle=False)
        if str(arrays["view"]) == view:
            before = dict(zip(arrays["names"].tolist(), arrays["features"]))
    missing = np.array([i for i in range(source.num_examples) if not names or names[i] not in before], np.int64)
    made = np.zeros([0, 0], np.float32)
    if len(missing):
        with _clocked("encoding pictures") as advance:
            part = restricted(source, missing)
            made = encoder.encode(part, config.batch_size, lambda done: advance(done, len(missing)))
    if not names:
        return made
    before |= {names[i]: row for i, row in zip(missing, made)}
    if workdir and len(missing):
        stream = io.BytesIO()
        np.savez(stream, view=view, names=[*before], features=np.stack([*before.values()]))
        write_file(path, stream.getvalue())
    return np.stack([before[name] for name in names])


def _learned(
    config: ClassifyConfig,
    source: Source,
    encoder: PictureEncoder,
    examples: Examples,
    kind: LabelKind,
    person: np.ndarray,
) -> tuple[dict[str, Any], logistic.Linear, str]:
    """Returns the content of result.json, the classifier trained on all labels, and the content of predictions.csv.

    The accuracy and the predictions are of the examples `person`, whose labels are no accepted guesses.
    """
    balanced, count = config.class_weights == BALANCED, len(examples.features)
    with _clocked("cross-validation") as advance:
        validated = logistic.validate(examples, kind, balanced, config.seed, advance)
    with waiting_for("the classifier of all labels"):
        chosen = (validated.strength, balanced, validated.self_training) if validated else (logistic.USUAL, balanced)
        classifier = logistic.fit(examples, *chosen)
    result: dict[str, Any] = {
        "kind": "classify",
        "encoder": config.encoder,
        "identity": encoder.identity.to_json(),
        "dataset": config.data.origin,
        "num_classes": examples.classes,
        "class_names": source.class_names,
        "num_train_labels": count,
        "label_fraction": 1.0,
        "levels": source.intensity_range,
        "seed": config.seed,
        "made": provenance.made(),
        **({"multi_label": True} if source.multi_label else {}),
    }
    if count > len(person):
        result["accepted_guesses"] = count - len(person)
    if validated is None or not len(person):
        return result, classifier, ""
    logits, halved, labels = validated.logits[person], validated.halved[person], examples.labels[person]
    single = kind is label_kinds.SINGLE_LABEL
    forecast = logistic.forecast(logits.argmax(1) == labels, halved.argmax(1) == labels) if single else None
    result |= {
        **kind.score(logits, labels),
        "classes": kind.classes(logits, labels, source.class_names),
        "calibration": calibration(*kind.choices(logits, labels), count, validated.temperature),
        "cross_validation": {name: getattr(validated, name) for name in ("folds", "repeats", "strength")},
        **(
            {}
            if examples.unlabelled is None
            else {"unlabelled": {"pictures": len(examples.unlabelled), "learned_from": validated.self_training}}
        ),
        **({"forecast": {**forecast._asdict(), "tells": forecast.tells}} if forecast else {}),
    }
    names = source.names()
    predictions = predictions_csv([names[i] for i in person], logits, labels, source.class_names, kind)
    return result, classifier, predictions


def described(result: dict[str, Any], config: ClassifyConfig) -> Iterator[str]:
    """Yields lines for the user that explain a result."""
    kind, labels = label_kinds.of_result(result), result["num_train_labels"]
    if "cross_validation" not in result:
        whose = " with a label that a person gave" if result.get("accepted_guesses") else ""
        yield f"accuracy: not measured, since no class has two pictures{whose}; label more"
        return
    if guesses := result.get("accepted_guesses"):
        yield f"{guesses:,} of the labels are accepted guesses (by=model): learned from, but not counted below"
    if pool := result.get("unlabelled"):
        used = "used by self-training" if pool["learned_from"] else "not used, since self-training does not help"
        yield f"{pool['pictures']:,} pictures without labels: {used}"
    yield f"by cross-validation: {kind.described(result)}"
    yield from kind.remarks(result)
    single = [name for name, count in result["classes"].items() if count["tested"] == 1]
    if single and kind is label_kinds.SINGLE_LABEL:
        yield f"counted as wrong: the only picture of a class, which cannot be in training and test: {listed(single)}"
    if forecast := result.get("forecast"):
        if forecast["tells"]:
            gain = 100 * forecast["gain"]
            yield f"{2 * labels:,} labels may give about {gain:.0f} points more, by extending the learning curve"
        else:
            yield f"the gain from {2 * labels:,} labels cannot be estimated from {labels:,}"
    if labels >= FINE_TUNING_PAYS and config.encoder != PIXELS:
        data = " ".join(
            f"--{name}={shlex.quote(value)}"
            for name, value in (("labelled", config.data.labelled), ("labels", config.data.labels))
            if value
        )
        command = f"cpc-tf efficient --encoder={shlex.quote(config.encoder)} {data} --workdir=runs/mine/efficient"
        yield f"with {labels:,} labels, fine-tuning the encoder (hours) may give a few points more: {command}"


def _write(
    config: ClassifyConfig, workdir: str, result: dict[str, Any], classifier: logistic.Linear, predictions: str
) -> None:
    """Writes the files of a run, in place of those of an earlier one."""

    def path(name: str) -> str:
        return os.path.join(workdir, name)

    stream = io.BytesIO()
    np.savez(stream, **classifier._asdict())
    if tf.io.gfile.exists(path("result.json")):  # it would be taken for that of the new classifier
        tf.io.gfile.remove(path("result.json"))
    about = {"task": "classify", "version": cpc_tf.__version__, "tensorflow": tf.__version__}
    write_file(path("run.json"), to_json(about))
    write_file(path("run.flags"), to_flagfile(config))
    write_file(path(WEIGHTS), stream.getvalue())
    if predictions:
        write_file(path(PREDICTIONS), predictions)
    write_file(path("result.json"), to_json(result))
