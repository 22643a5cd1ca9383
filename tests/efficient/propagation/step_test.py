"""Label propagation in the training of a classifier: what a step computes, reads and changes."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.data import catalog
from cpc_tf.data.catalog import Pair
from cpc_tf.data.sources.source import IndexedSource
from cpc_tf.efficient.classifier import FINE_TUNED, SUPERVISED, Classification, ResNetClassifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient, prepare
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.encoders.networks import resnet
from cpc_tf.settings import ConfigError, replace
from cpc_tf.training.strategy import make_strategy
from tests import samples

pytestmark = pytest.mark.slow
BATCH, SIDE = 4, 8
RANDOM = np.random.default_rng(0)
TINY = resnet.ARCHITECTURES["tiny"]  # of all its blocks; tests have it with one


def batch(method, ratio=1):
    def images(*shape):
        return tf.constant(RANDOM.integers(0, 256, [*shape, SIDE, SIDE, 3], dtype=np.uint8))

    views = [2] * (method == "uda")
    return {
        "image": images(BATCH), "label": tf.constant([0, 1, 2, 0], tf.int64), "unlabelled": images(BATCH, ratio, *views)
    }  # fmt: skip


def make(method, phase=SUPERVISED, norm="none", strategy=None, **settings):
    strategy = strategy or make_strategy("single")
    head = {"head_blocks": norm != "none", "head_width": 8, "dropout": 0.5, "learning_rate": 0.1, "weight_decay": 0.0}
    more = {"encoder": "pixels", "propagation": method, "xla": "off", "batch_size": BATCH, "pseudo_begin": 0.0}
    with strategy.scope():
        config = replace(EfficientConfig(), **{**head, **more, **settings})
        encoder = load_feature_maps("random", "feature_map", SIDE, backbone="tiny")
        tf.random.set_seed(1)
        classifier = ResNetClassifier(3, config.classifier, norm)
        classifier.build([None, 1, 1, 128])
        trainee = Classification(encoder, classifier, phase, config, 10, strategy)
        trainee.step.assign(5)  # so that pseudo-labels have a weight
        return trainee


def step(trainee, given):
    found = trainee.strategy.run(tf.function(trainee.train_step, autograph=False), (given,))
    return {name: trainee.strategy.reduce("MEAN", value, None).numpy() for name, value in found.items()}


def weights(trainee):
    return [variable.numpy() for variable in trainee.trained]


def test_two_replicas_give_the_step_of_one(two_replicas):
    """With dropout, batch norm's statistics and several pictures without labels beside each one with a label.

    Of VAT and its noise tests/conformance_test.py shows it.
    """
    method = "uda"
    settings = {"phase": FINE_TUNED, "norm": "batch", "finetune_steps": 10, "unlabelled_ratio": 2}
    given = batch(method, ratio=2)
    one, two = make(method, **settings), make(method, strategy=two_replicas, **settings)
    halves = {name: tf.split(value, 2) for name, value in given.items()}

    def half(context):
        return {name: parts[context.replica_id_in_sync_group] for name, parts in halves.items()}

    metrics = step(one, given), step(two, two_replicas.experimental_distribute_values_from_function(half))
    assert metrics[0]["unlabelled_loss"] > 0
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-4)
    for ours, theirs in zip(weights(two), weights(one)):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_step_compiled_by_xla_is_the_same(monkeypatch):
    """But for the noise, of which the direction that changes a prediction most depends little in a deeper network."""
    monkeypatch.setitem(resnet.ARCHITECTURES, "tiny", TINY)
    given = batch("vat")
    plain, compiled = (step(make("vat", xla=xla, dropout=0.0), given) for xla in ("off", "on"))
    assert compiled.pop("divergence") == pytest.approx(plain.pop("divergence"), rel=0.2)
    del plain["unlabelled_loss"], compiled["unlabelled_loss"]
    assert compiled == pytest.approx(plain, rel=1e-3)


def test_running_statistics_are_those_of_pictures_with_labels():
    given = batch("vat")

    def statistics(method):
        trainee = make(method, FINE_TUNED, "batch", finetune_steps=10)
        step(trainee, given if method == "vat" else {"image": given["image"], "label": given["label"]})
        return [v.numpy() for v in trainee.classifier.non_trainable_variables]

    for ours, theirs in zip(statistics("vat"), statistics("none")):
        np.testing.assert_array_equal(ours, theirs)


class Blobs(IndexedSource):
    """Pictures in memory: a bright square in one of two halves, at a random place, in noise."""

    class_names = ("left", "right")

    def __init__(self, labels, seed):
        random = np.random.default_rng(seed)
        self._labels, self.num_examples = tf.constant(labels, tf.int64), len(labels)
        pixels = random.integers(0, 40, [len(labels), 16, 16, 3])
        for image, right in zip(pixels, np.arange(len(labels)) % 2):
            top, left = random.integers(0, 12), random.integers(0, 5) + 8 * right
            image[top : top + 4, left : left + 4] += 200
        self._encoded = tf.constant([tf.io.encode_png(image.astype(np.uint8)).numpy() for image in pixels])

    def read(self, index):
        return {"encoded": self._encoded[index], "label": self._labels[index]}

    def labels(self):
        return self._labels.numpy()


FLAGS = """
    --resize=16 --image_size=16 --crop_area=1 --nomirror --augment=none --encoder=pixels --backbone=tiny
    --batch_size=8 --train_steps=4 --steps_per_loop=2 --checkpoint_every=2 --labels_per_class=2 --held_out=0
    --learning_rate=0.05 --dropout=0 --strategy=single --precision=float32
""".split()
TRUE = np.arange(40) % 2


def run(monkeypatch, workdir, *flags, labels=TRUE):
    monkeypatch.setattr(catalog, "open_pair", lambda *_: Pair(Blobs(labels, 0), Blobs(TRUE, 1), ""))
    return cli.parse(EfficientConfig, [*FLAGS, f"--workdir={workdir}", *flags])


def test_labels_that_were_not_chosen_are_not_read(monkeypatch, tmp_path):
    """Without them a run is the same."""
    labels, _ = prepare(run(monkeypatch, tmp_path), make_strategy("single"))
    monkeypatch.setattr("cpc_tf.efficient.run.choose_labels", lambda *_: labels)
    wrong = np.full(len(TRUE), -1)
    wrong[labels.chosen] = TRUE[labels.chosen]
    right, other = (
        efficient(run(monkeypatch, tmp_path / name, "--propagation=pseudo_labels", labels=own))
        for name, own in (("right", TRUE), ("wrong", wrong))
    )
    assert right["propagation"] == "pseudo_labels"
    assert right["loss"] == other["loss"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--propagation=vat", "--encoder=hub"], "--propagation=vat: a frozen encoder's classifier learns from labels"),
        (
            ["--propagation=pseudo_labels", "--patience=2", "--held_out=0.2"],
            "--propagation=pseudo_labels: their weight",
        ),
        (["--propagation=uda"], "--propagation=uda: needs the transformations of --augment, which is none"),
        (["--propagation=vat", "--precision=float16"], "--propagation=vat: the gradient of a picture is too small"),
        (["--unlabelled=x"], "--unlabelled=x: goes with a folder of pictures with labels, --labelled"),
        (["--unlabelled=x", "--labelled=y"], "--unlabelled=x: a classifier learns from pictures without labels only"),
    ],
)
def test_what_cannot_be_is_refused(flags, message, monkeypatch, tmp_path):
    with pytest.raises(ConfigError, match=message):
        run(monkeypatch, tmp_path, *flags)


def test_several_labels_are_refused(monkeypatch, tmp_path):
    config = run(monkeypatch, tmp_path, "--propagation=vat", "--labels_per_class=0")
    monkeypatch.setattr(catalog, "open_pair", samples.SeveralLabels.pair)
    with pytest.raises(ConfigError, match="--propagation=vat: needs pictures with one label each"):
        prepare(config, make_strategy("single"))


def test_pictures_of_another_folder_come_beside_those_of_the_split(tmp_path):
    folder = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    more = samples.write_pictures(tmp_path / "more", {"some": 3})
    data = [f"--labelled={folder}", f"--unlabelled={more}", "--test_split=val", f"--data_dir={tmp_path}/cache"]
    config = cli.parse(EfficientConfig, [*FLAGS, *data, "--propagation=vat", f"--workdir={tmp_path}/run"])
    _, phases = prepare(config, make_strategy("single"))
    assert phases.inputs.count == 6
    assert phases.inputs.unlabelled.num_examples == 12 + 9
