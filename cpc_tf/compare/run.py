"""`cpc-tf compare`: trains an encoder by each objective for the same time, and measures them all.

Each training is a process of its own, `cpc-tf pretrain`, in a folder of the comparison. What has
ended is not done again.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from cpc_tf.classify.config import LabelledConfig
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.compare import measure, summary
from cpc_tf.compare.config import CompareConfig
from cpc_tf.compare.methods import PAPER, training_flags
from cpc_tf.core.cli import parse_run
from cpc_tf.core.files import read_json, read_text, to_json, write_file
from cpc_tf.core.locks import locked
from cpc_tf.core.progress import duration, waiting_for
from cpc_tf.core.settings import ConfigError, RunEnded, changed_flags, to_flagfile
from cpc_tf.data import catalog
from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.source import Source
from cpc_tf.encoders.features import Encoder
from cpc_tf.encoders.released import DEFAULT
from cpc_tf.objectives.config import title
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.training import pace
from cpc_tf.training.loop import Diverged
from cpc_tf.training.workdir import read_config

# Files in the directory of a comparison.
SETTINGS = "compare.flags"
IMAGES = "images.sha256"
BATCH = 64  # images encoded at a time


class ComparedConfig(LabelledConfig):
    """Where the labelled images come from, by the name of the flag of this command."""

    @property
    def flag(self) -> str:
        return f"--pictures={self.labelled}"


class Failed(RunEnded):
    """A training or an export of the comparison has failed."""

    status = 1


class Test(NamedTuple):
    """What all encoders are tested on.

    Attributes:
      labelled: the images.
      examples: their labels and groups, without features.
      numbers: labels per class to learn from.
      seed: of the draws of labels.
    """

    labelled: Source
    examples: LabelledFeatures
    numbers: tuple[int, ...]
    seed: int


class Training(NamedTuple):
    """One training of the comparison.

    Attributes:
      objective, trial: of `methods`.
      folder: gets its run, its module and its figures.
    """

    objective: str
    trial: str
    folder: str

    @property
    def name(self) -> str:
        """The objective and the trial in words."""
        setting = "its paper's setting" if self.trial == PAPER else "the setting for short runs"
        return f"{title(self.objective)}, {setting}"

    @property
    def run(self) -> str:
        """Directory of the training."""
        return f"{self.folder}/training"

    @property
    def module(self) -> str:
        """Directory of the exported encoder."""
        return f"{self.folder}/hub"

    @property
    def figures(self) -> str:
        """File of what the encoder is worth."""
        return f"{self.folder}/worth.json"


def compare(config: CompareConfig) -> dict[str, Any]:
    """Runs or resumes a comparison; returns the content of its result.json, {} of a dry run.

    Raises:
      ConfigError: the images or the directory cannot be used.
      Failed: a training failed; the message has its last line.
      NotWritten: something cannot be written.
    """
    # The trainings have the GPU: TensorFlow would take all of its memory here, too.
    tf.config.set_visible_devices([], "GPU")

    # The images.
    data = ComparedConfig(
        dataset=f"folder:{config.pictures}", labelled=config.pictures, labels=config.labels
    )
    labelled = catalog.open_labelled(data, data.split, "split")
    print(catalog.summarized(data, [catalog.summary_of("split", data.split, labelled)]))
    test = _test_of(config, labelled)
    unlabelled = PicturesConfig(unlabelled=config.pictures)
    images = catalog.open_source(unlabelled, unlabelled.split).num_examples

    # What it costs.
    trainings = _trainings(config)
    todo = [each for each in trainings if not os.path.exists(each.figures)]
    time = duration(60 * config.minutes * len(todo))
    print(
        f"{len(trainings)} training runs on {images} images, {len(trainings) - len(todo)} of"
        f" them done; {time} of training left, and a few minutes to prepare and to evaluate"
        " each run",
        flush=True,
    )
    if config.dry_run:
        for training in todo:
            print(f"  {training.name}")
        return {}

    # The trainings and the result.
    with locked(config.workdir):
        _claim(config, _digest(labelled, images))
        for number, training in enumerate(todo, 1):
            print(f"[{number}/{len(todo)}] {training.name}", flush=True)
            try:
                _train(config, training, images)
                _measure(training.module, training.figures, test)
            except Diverged as error:
                print(f"  diverged, and is left out of the comparison: {error}", flush=True)
                write_file(training.figures, to_json({"diverged": str(error)}))
        return _result(config, trainings, test, images)


def _trainings(config: CompareConfig) -> list[Training]:
    """Returns the trainings: all objectives by the setting for short runs, then by the papers'."""
    every = []
    for trial in reversed(config.chosen_trials):
        for objective in config.names:
            folder = f"{config.workdir}/{objective}_{trial}"
            every.append(Training(objective, trial, folder))
    return every


def _result(
    config: CompareConfig, trainings: Sequence[Training], test: Test, images: int
) -> dict[str, Any]:
    """Measures what the trained encoders are compared with, writes and prints the result; returns
    the content of result.json.
    """
    # The trained encoders.
    figures = {training: read_json(training.figures) for training in trainings}
    diverged = [each.name for each in trainings if "diverged" in figures[each]]
    measured = [each for each in trainings if "diverged" not in figures[each]]

    # What they are compared with.
    references = {DEFAULT: DEFAULT, "pixels": "pixels"}
    if measured:
        references["untrained"] = f"random:{measured[0].module}"
    files = {name: f"{config.workdir}/{name}.json" for name in references}
    for name, encoder in references.items():
        if not os.path.exists(files[name]):
            _measure(encoder, files[name], test)

    # The table, the picture and the JSON.
    rows = summary.rows(
        {(each.objective, each.trial): figures[each] for each in measured},
        {name: read_json(file) for name, file in files.items()},
    )
    result = {
        "pictures": config.pictures,
        "images": images,
        "labelled_images": test.labelled.num_examples,
        "minutes": config.minutes,
        "encoders": [row._asdict() for row in rows],
        "diverged": diverged,
    }
    text = summary.text(rows, config.minutes, diverged)
    write_file(f"{config.workdir}/comparison.md", text)
    write_file(f"{config.workdir}/comparison.png", summary.picture(rows))
    write_file(f"{config.workdir}/result.json", to_json(result))
    print(text)
    print(f"{config.workdir}: comparison.md, comparison.png, result.json", flush=True)
    return result


def _test_of(config: CompareConfig, labelled: Source) -> Test:
    """Returns what all encoders are tested on. Raises ConfigError if the labels are too few."""
    flag, value = ("labels", config.labels) if config.labels else ("pictures", config.pictures)
    if labelled.multi_label:
        raise ConfigError(flag, value, "has multi-label images; compare needs one class per image")
    labels = labelled.labels()
    examples = LabelledFeatures(
        features=labels[:, None],  # those of an encoder take their place
        labels=labels,
        groups=labelled.groups(),
        classes=len(labelled.class_names),
    )
    rest = examples.take(~measure.chosen_third(examples))
    numbers = measure.possible_numbers(rest.labels, rest.classes)
    if not numbers:
        counts = np.bincount(labels, minlength=examples.classes)
        name = labelled.class_names[counts.argmin()]
        raise ConfigError(
            flag,
            value,
            f"class {name} has {counts.min()} labelled images; each class needs about"
            f" {3 * measure.NUMBERS[0]}, since a third of them chooses the trial and half of"
            " the others are the test",
        )
    return Test(labelled, examples, numbers, config.seed)


def _digest(labelled: Source, images: int) -> str:
    """Returns what tells the images of a comparison from others: their number, the names of those
    with labels, and their labels.
    """
    digest = hashlib.sha256(f"{images} {labelled.class_names}".encode())
    for name, label in zip(labelled.identities(), labelled.labels().tolist()):
        digest.update(f"{name!r} {label}\n".encode())
    return digest.hexdigest()


def _claim(config: CompareConfig, digest: str) -> None:
    """Writes the settings of a new comparison, and what its images are.

    Raises:
      ConfigError: the directory has a comparison with other settings, or of other images, whose
        figures do not compare with those to come.
    """
    path = f"{config.workdir}/{SETTINGS}"
    images = f"{config.workdir}/{IMAGES}"
    if os.path.exists(path):
        saved = parse_run(CompareConfig, read_text(path))
        if differ := changed_flags(config, saved):
            name, (now, before) = next(iter(differ.items()))
            raise ConfigError(
                name,
                now,
                f"--workdir={config.workdir} holds a comparison with --{name}={before}; use"
                " another --workdir, or the same settings to resume it",
            )
    if os.path.exists(images) and read_text(images) != digest:
        raise ConfigError(
            "pictures",
            config.pictures,
            f"the images or their labels have changed since the comparison in {config.workdir}"
            " began, so its figures could not be compared; use another --workdir",
        )
    write_file(images, digest)
    write_file(path, to_flagfile(config))


def _train(config: CompareConfig, training: Training, images: int) -> None:
    """Trains and exports an encoder, unless that is done. A training that was interrupted goes
    on.
    """
    data = [f"--unlabelled={config.pictures}", f"--seed={config.seed}"]
    log = f"{training.folder}/log.txt"
    if not os.path.exists(f"{training.run}/result.json"):
        if os.path.exists(f"{training.run}/run.flags"):
            steps = read_config(training.run, PretrainConfig).training.train_steps
        else:
            steps = _fitting_steps(config, training, images, data)
        end = datetime.datetime.now() + datetime.timedelta(minutes=config.minutes)
        print(f"  {steps} steps, until about {end:%H:%M}; {log}", flush=True)
        flags = training_flags(training.objective, training.trial, images, steps, config.image_size)
        _call("cpc_tf.pretrain", [*flags, *data, f"--workdir={training.run}"], log)
    if not os.path.exists(f"{training.module}/encoder.json"):
        with waiting_for("exporting the encoder"):
            _call(
                "cpc_tf.export", [f"--workdir={training.run}", f"--output={training.module}"], log
            )


def _fitting_steps(
    config: CompareConfig, training: Training, images: int, data: Sequence[str]
) -> int:
    """Returns how many steps fit into the minutes, with the work between epochs."""
    flags = training_flags(training.objective, training.trial, images, 1000, config.image_size)
    with waiting_for("timing a step"):
        seconds = pace.seconds_of_step("cpc_tf.pretrain", [*flags, *data])
    return max(1, round(60 * config.minutes / seconds))


def _call(module: str, flags: Sequence[str], log: str) -> None:
    """Runs a program to its end; its output is appended to a file.

    Raises:
      Diverged: the training diverged; the message is its last line.
      Failed: it ended with another error, whose last line is the message's.
    """
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "a") as file:
        process = subprocess.Popen([sys.executable, "-m", module, *flags], stdout=file, stderr=file)
        try:
            status = process.wait()
        except BaseException:
            process.terminate()  # it saves the step that is under way
            process.wait()
            raise
    if status:
        last = "".join(read_text(log).strip().splitlines()[-1:])
        if status == Diverged.status:
            raise Diverged(last)
        raise Failed(f"{module} failed ({last}); the full output is in {log}")


def _measure(encoder: str, file: str, test: Test) -> None:
    """Writes what an encoder's features are worth."""
    with waiting_for("encoding images"):
        features = Encoder(encoder, test.seed).encode_source(
            test.labelled, BATCH, lambda done: None
        )
    worth = measure.worth(test.examples._replace(features=features), test.numbers, test.seed)
    write_file(file, to_json(worth._asdict()))
