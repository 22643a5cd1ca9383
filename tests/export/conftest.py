"""Runs and what is exported of them, written once for all tests of the export."""

import functools
import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.files import write_file
from cpc_tf.data.config import GeometryConfig, ImageConfig
from cpc_tf.efficient.classifier import FINE_TUNED
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.export import verify
from cpc_tf.export.classifier import Classifying, HubClassifier, save
from cpc_tf.export.run import ExportConfig, export, exporter
from cpc_tf.training.workdir import read_config, read_task
from tests import modules, processes
from tests.conftest import make_tiny
from tests.data.samples import open_folder
from tests.export.runs import IMAGES, NAMES, detector_run, few_labels, pretraining_run
from tests.samples import write_pictures

GEOMETRY = GeometryConfig(resize=32, image_size=32, patch_size=16, patch_stride=4)
# batch norm is what minds `training`
OURS = EncoderConfig(encoder="small", norm="batch", recompute=True)
SIZES = [(40, 30), (16, 50), (22, 22)]  # of the images of `root`, one of each class


@pytest.fixture(scope="package", autouse=True)
def _tiny():
    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        yield


@pytest.fixture
def forked(monkeypatch):
    """A check in a process that has TensorFlow already, but has never traced anything of ours."""

    def start(command, env, **_):
        script = os.path.splitext(
            os.path.relpath(command[1], os.path.dirname(os.path.dirname(cli.__file__)))
        )[0]
        return processes.run(script.replace(os.sep, "."), *command[2:], env=env)

    monkeypatch.setattr(verify, "subprocess", SimpleNamespace(run=start))


@pytest.fixture(scope="package")
def ours(tmp_path_factory):
    """A module of ours, for reading only: its `path`, and `endpoints` of IMAGES and of one `patch`
    of them.
    """
    path = tmp_path_factory.mktemp("modules") / "ours"
    encoder = modules.write_module(path, OURS)
    whole, patch = (
        encoder.endpoints(tf.constant(IMAGES)),
        encoder.endpoints(tf.constant(IMAGES[1:, 12:20, 4:12])),
    )
    # row 3, column 1
    return SimpleNamespace(path=str(path), encoder=encoder, endpoints=whole, patch=patch)


@pytest.fixture(scope="package")
def pretrained(tmp_path_factory):
    """See `pretraining_run`."""
    return pretraining_run(str(tmp_path_factory.mktemp("somewhere") / "first_run"))


@pytest.fixture(scope="package")
def detected(tmp_path_factory):
    """(path, trainee) of a run of detection."""
    path = str(tmp_path_factory.mktemp("somewhere") / "first_run")
    return path, detector_run(path)


class Theirs(tf.Module):
    """A third-party module whose features come out of a table, which is no variable."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal([4, 4, 3, 6], [1, 1]))
        pairs = tf.lookup.KeyValueTensorInitializer(["shift"], tf.constant([0.5]))
        self.table = tf.lookup.StaticHashTable(pairs, 0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32)])
    def __call__(self, images):
        return tf.nn.conv2d(images, self.kernel, 4, "SAME") + self.table.lookup(
            tf.constant("shift")
        )


@pytest.fixture(scope="package")
def root(ours, tmp_path_factory):
    """A folder with val/NAME/0.png, our module `ours` and another `theirs`."""
    root, random = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    for name, size in zip(NAMES, SIZES):
        (root / "pictures/val" / name).mkdir(parents=True)
        pixels = (
            random.integers(0, 256, [size[0] // 2, size[1] // 2, 3], np.uint8)
            .repeat(2, 0)
            .repeat(2, 1)
        )
        (root / "pictures/val" / name / "0.png").write_bytes(tf.io.encode_png(pixels).numpy())
    (root / "ours").symlink_to(ours.path)
    tf.saved_model.save(Theirs(), str(root / "theirs"))
    return root


@pytest.fixture(scope="package")
def source(root):
    return open_folder(root / "pictures", "val", root / "cache")


@pytest.fixture(scope="package")
def exported(tmp_path_factory, request):
    """Kind -> (directory, what the export returned), written once and checked in a fresh process.

    An encoder of pre-training, the classifier of a run with few labels on a third-party module, and
    a detector.
    """

    @functools.cache
    def of(kind):
        if kind == "encoder":
            workdir = request.getfixturevalue("pretrained").path
        elif kind == "classifier":
            workdir, _ = few_labels(request.getfixturevalue("root"), "theirs", FINE_TUNED)
        else:
            workdir, _ = request.getfixturevalue("detected")
        output = str(tmp_path_factory.mktemp("exported") / "hub")
        return output, export(ExportConfig(workdir=workdir, output=output))

    return of


@pytest.fixture(scope="package")
def hub_dir(exported):
    """The directory of the exported encoder."""
    return exported("encoder")[0]


@pytest.fixture(scope="package")
def pictures(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures") / "colours", {"train": 8, "val": 12})


@pytest.fixture(scope="package")
def colours_module(tmp_path_factory):
    """The directory of a classifier that knows the colours of `pictures`, and one more."""
    names, path = (
        ["blue", "green", "red", "yellow"],
        str(tmp_path_factory.mktemp("modules") / "colours"),
    )
    colours = tf.Variable([[0, 0, 1], [0, 1, 0], [1, 0, 0], [-1, -1, -1]], dtype=tf.float32)

    def logits(images):  # uint8 [N, 16, 16, 3]
        means = tf.reduce_mean(tf.cast(images, tf.float32), [1, 2])
        return tf.matmul(means, colours, transpose_b=True) / 50

    geometry = ImageConfig(resize=20, image_size=16)
    save(HubClassifier(Classifying(logits, [colours], geometry, names, temperature=2.0)), path)
    card = {
        "class_names": names,
        "multi_label": False,
        "image_size": 16,
        "resize": 20,
        "geometry": None,
    }
    write_file(f"{path}/classifier.json", json.dumps(card))
    return path


def made(workdir, step=0, weights="averaged", part="encoder"):
    """What would be written for a run: neither saved nor checked."""
    task = read_task(str(workdir))
    return exporter(part, task.name)(
        read_config(str(workdir), task.config), str(workdir), step, weights
    )


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def assert_close(got, wanted):
    np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
