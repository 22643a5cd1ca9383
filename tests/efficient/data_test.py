"""Which images a run learns from: none of --validation_split; with self-training all, with
predicted classes.
"""

import itertools
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.efficient.classifier import SUPERVISED
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.data import relabelled
from cpc_tf.efficient.inputs import Labels
from cpc_tf.efficient.run import efficient, prepare
from cpc_tf.training.strategy import make_strategy
from tests import samples

FLAGS = """
    --resize=16 --image_size=16 --crop_area=1 --crop_stretch=1 --nomirror --augment=none
    --encoder=pixels --backbone=tiny --dropout=0 --batch_size=6 --test_split=val --strategy=single
    --steps_per_loop=4
""".split()


def config(folder, path, *more):
    here = [f"--dataset=folder:{folder}", f"--data_dir={path}/cache", f"--workdir={path}/run"]
    return cli.parse(EfficientConfig, [*FLAGS, *here, *more])


def learned(phases, settings, count):
    """{pixels: label} of the images in an epoch of a training."""
    stream = phases.inputs.training(settings, SUPERVISED, "chosen")(0, tf.distribute.InputContext())
    batches = itertools.islice(
        stream.as_numpy_iterator(), -(-count // len(next(iter(stream))["label"]))
    )
    return {
        image.tobytes(): label
        for batch in batches
        for image, label in zip(batch["image"], batch["label"])
    }


def pixels(folder, names):
    return [
        tf.io.decode_image(tf.io.read_file(f"{folder}/{name}")).numpy().tobytes() for name in names
    ]


class Known(samples.MultiLabel):
    """Six images, of which each is known by its number."""

    multi_label = False

    def __init__(self, numbers, labels):
        super().__init__(len(numbers))
        self._numbers, self._labels = numbers, np.array(labels, np.int64)

    def labels(self):
        return self._labels

    def identities(self):
        yield from self._numbers


def test_unchosen_images_have_the_predicted_class():
    """In the pool the images have another order, and there are more of them."""
    source, pool = Known([10, 11, 12, 13], [0, 1, 2, 0]), Known([13, 99, 12, 11, 98, 10], [-1] * 6)
    predicted, labels = (
        np.array([2, 2, 2, 2, 1, 1]),
        Labels(*map(np.array, ([1, 3], [3], [1])), 0.5),
    )
    source, every = relabelled(source, labels, pool, predicted)
    assert source.labels().tolist() == [0, 2, 2, 1, 1, 1]
    assert [each["label"] for each in source.ordered().as_numpy_iterator()] == [0, 2, 2, 1, 1, 1]
    assert [part.tolist() for part in every[:3]] == [[0, 1, 2, 3, 4, 5], [0, 1, 2, 4, 5], [3]]


@pytest.mark.slow
@pytest.mark.parametrize(("fraction", "count"), [(0.5, 15), (1, 27)])
def test_no_fraction_has_pictures_of_the_validation_split(
    folder, tmp_path, capsys, fraction, count
):
    """A quarter of twelve images of each of three classes; the fraction is of the other nine,
    rounded half up.
    """
    more = [
        f"--label_fraction={fraction}",
        "--validation_split=train[:25%]",
        "--patience=1",
        "--propagation=vat",
    ]
    settings = config(folder, tmp_path, *more)
    labels, phases = prepare(settings, make_strategy("single"))
    told = (
        f"--validation_split=train[:25%]: 9 labels beside the {count} that are learned select"
        " settings and lengths"
    )
    assert told in capsys.readouterr().out
    held_out = [each["label"] for each in phases.inputs.in_order(SUPERVISED, "held_out")]
    assert np.bincount(np.concatenate(held_out)).tolist() == [3, 3, 3]
    every = {*pixels(folder, phases.inputs.sources[0].names())}
    validation = every - {*pixels(folder, phases.inputs.unlabelled.names())}
    assert (len(validation), phases.inputs.held_out, phases.inputs.size("fit")) == (9, 9, count)
    chosen = {*learned(phases, settings, count)}
    assert chosen == {*pixels(folder, np.array(phases.inputs.sources[0].names())[labels.chosen])}
    assert len(chosen) == count
    assert not chosen & validation


@pytest.mark.slow
def test_self_training_resumes_after_any_kill(folder, tmp_path):
    more = [
        "--propagation=self_training",
        "--labels_per_class=2",
        "--held_out=0",
        "--train_steps=12",
        "--drops_at=0.5",
    ]
    more += [
        "--teacher=train_steps=8,drops_at=0.25,0.75,warmup_steps=2",
        "--validation_split=train[:3]",
    ]
    settings = config(folder, tmp_path, *more)
    teacher = efficient(settings.of_teacher())  # as a kill between the two trainings would leave it
    assert (teacher["steps"], teacher["num_train_labels"], teacher.get("propagation")) == (
        8,
        6,
        None,
    )
    result = efficient(settings)
    assert (result["steps"], result["num_train_labels"], result["propagation"]) == (
        12,
        6,
        "self_training",
    )
    assert result["validation"] == {"split": "train[:3]", "labels": 3}
    for folder_of, warmup, drops in (
        ("run/teacher/supervised", 2, [2, 6]),
        ("run/supervised", 0, [6]),
    ):
        schedule = json.loads((tmp_path / folder_of / "run.json").read_text())["schedules"][
            "optimizer0"
        ]
        assert (schedule["warmup_steps"], schedule["drops"], schedule["cosine_steps"]) == (
            warmup,
            drops,
            0,
        )

    predicted = json.loads((tmp_path / "run/pseudo_labels.json").read_text())["predicted"]
    labels, phases = prepare(settings, make_strategy("single"), taught=np.array(predicted))
    source = phases.inputs.sources[0]
    assert source.num_examples == len(predicted) == 33  # all but those of the validation split
    given = [phases.inputs.class_names.index(name.split("/")[1]) for name in source.names()]
    differ = np.flatnonzero(np.array(given) != source.labels())
    assert {*differ} <= {*np.flatnonzero(np.array(given) != predicted)}, (
        "labels that are known are kept"
    )
    assert learned(phases, settings, 33) == dict(
        zip(pixels(folder, source.names()), source.labels())
    )

    # Killed before the labels were written, and before the second training.
    ended = [
        (tmp_path / "run" / name).read_text() for name in ("pseudo_labels.json", "predictions.csv")
    ]
    for gone in (["pseudo_labels.json"], []):
        for name in (*gone, "result.json", "predictions.csv"):
            (tmp_path / "run" / name).unlink()
        shutil.rmtree(tmp_path / "run/supervised")
        again = efficient(settings)
        assert again["top1"] == result["top1"]
        assert [
            (tmp_path / "run" / name).read_text()
            for name in ("pseudo_labels.json", "predictions.csv")
        ] == ended
