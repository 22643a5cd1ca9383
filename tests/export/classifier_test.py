"""The classifier of a run on labels, exported: it says of a picture, or of its file, what the run's test says."""

import json
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_hub as hub

from cpc_tf import cli
from cpc_tf.data.pipeline import pipeline
from cpc_tf.efficient.classifier import FINE_TUNED, FROZEN
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.calibration import probabilities
from cpc_tf.export import check_module, run
from cpc_tf.export.run import ExportConfig
from cpc_tf.files import write_file
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, geometry_of
from cpc_tf.settings import ConfigError
from cpc_tf.training.checkpoint import Checkpoints
from tests.data.samples import open_folder
from tests.export.conftest import assert_close, made, read
from tests.export.runs import NAMES, RESULT, changed, efficient_run, write_run
from tests.snippets import python_of

pytestmark = pytest.mark.slow

SIZES = [(40, 30), (16, 50), (22, 22)]  # of the pictures, one of each class
SIDES = ["--resize=22", "--image_size=16"]
EFFICIENT = [
    *SIDES, "--backbone=small", "--batch_size=2", "--train_steps=2", "--head_blocks=1", "--head_width=8",
    "--strategy=single", "--test_split=val",
]  # fmt: skip
GRID = ["--geometry_from=flags", "--augment=none", *SIDES, "--patch_size=8", "--patch_stride=4"]
LINEAR = ["--batch_size=3", "--strategy=single", "--test_split=val"]


class Theirs(tf.Module):
    """A third-party module whose features come out of a table, which is no variable."""

    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.stateless_normal([4, 4, 3, 6], [1, 1]))
        pairs = tf.lookup.KeyValueTensorInitializer(["shift"], tf.constant([0.5]))
        self.table = tf.lookup.StaticHashTable(pairs, 0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, None, None, 3], tf.float32)])
    def __call__(self, images):
        return tf.nn.conv2d(images, self.kernel, 4, "SAME") + self.table.lookup(tf.constant("shift"))


@pytest.fixture(scope="module")
def root(ours, tmp_path_factory):
    """A folder with val/NAME/0.png, our module `ours` and another `theirs`."""
    root, random = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    for name, size in zip(NAMES, SIZES):
        (root / "pictures/val" / name).mkdir(parents=True)
        pixels = random.integers(0, 256, [size[0] // 2, size[1] // 2, 3], np.uint8).repeat(2, 0).repeat(2, 1)
        (root / "pictures/val" / name / "0.png").write_bytes(tf.io.encode_png(pixels).numpy())
    (root / "ours").symlink_to(ours.path)
    tf.saved_model.save(Theirs(), str(root / "theirs"))
    return root


@pytest.fixture(scope="module")
def source(root):
    return open_folder(root / "pictures", "val", root / "cache")


@pytest.fixture(scope="module")
def files(root):
    return [(root / "pictures/val" / name / "0.png").read_bytes() for name in NAMES]


def few_labels(root, encoder, phase, *flags):
    """A run on few labels without training: (its path, images -> logits)."""
    path = f"{root}/runs/{phase}{encoder}{len(flags)}"
    named = encoder.replace("ours", f"{root}/ours").replace("theirs", f"{root}/theirs")
    data = [f"--dataset=folder:{root}/pictures", f"--encoder={named}", f"--workdir={path}"]
    config = cli.parse(EfficientConfig, [*EFFICIENT, *data, *flags])
    trainee, policy = efficient_run(config, phase), config.augment.policy
    return path, lambda source: trainee.logits(pipeline.plain_images(source, config.images, 2, policy=policy))[0]


def linear_run(root, encoder, *flags):
    """The same for a linear run."""
    path = f"{root}/runs/linear{encoder}{len(flags)}"
    named = encoder if encoder == "pixels" else f"{root}/{encoder}"
    data = [f"--dataset=folder:{root}/pictures", f"--encoder={named}", f"--workdir={path}"]
    config = cli.parse(LinearConfig, [*LINEAR, *data, *flags])
    geometry, policy = geometry_of(config), augment_of(config).policy
    encoder = load_patch_encoder(named, config.training.seed, geometry.patch_size)
    patches = tf.zeros([1, *[geometry.grid] * 2, *[geometry.patch_size] * 2, 3], tf.uint8)
    shape = encoder.patch_latents(patches).shape[1:]
    trainee = LinearTraining(config, encoder.patch_latents, shape, len(NAMES), tf.distribute.get_strategy())
    changed(trainee.classifier.variables)
    Checkpoints(path, trainee.checkpoint).save(2)
    write_run(config, "linear", {"identity": encoder.identity.to_json()})
    return path, lambda source: trainee.test(pipeline.plain_patches(source, geometry, 2, policy=policy))[0]


def with_result(path, folder, **changes):
    """A copy of a run whose result has other values; returns its path."""
    copy = shutil.copytree(path, folder / "run")
    result = json.loads(read(path, "result.json"))
    write_file(f"{copy}/result.json", json.dumps({**result, **changes}))
    return copy


def check(module, files, wanted):
    """Compares a module with the logits of the run's test, on pictures and on their files."""
    each = [module(tf.io.decode_png(file, channels=3)[None]) for file in files]
    together = module.from_bytes(tf.constant(files))
    for found in ({name: np.concatenate([one[name] for one in each]) for name in each[0]}, together):
        assert_close(found["logits"], wanted)
        np.testing.assert_allclose(found["probabilities"], probabilities(wanted, 2.5), atol=1e-5)
        assert [NAMES[label] for label in wanted.argmax(1)] == [name.decode() for name in np.array(found["name"])]
        np.testing.assert_array_equal(found["label"], wanted.argmax(1))


@pytest.mark.parametrize(
    ("encoder", "phase", "flags"),
    [
        ("random:ours", FROZEN, ["--endpoint=latents", "--augment=v1", "--resize_mode=pad"]),
        ("graph:ours", FINE_TUNED, ["--encoder_adam=paper", "--resize_mode=crop"]),
        ("pixels", "supervised", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_says_what_the_run_on_few_labels_says(root, source, files, encoder, phase, flags):
    path, tested = few_labels(root, encoder, phase, *flags)
    found = made(path, part="all")
    wanted = tested(source)
    assert np.ptp(wanted) > 0.01
    check(found.module, files, wanted)
    assert found.card["step"] == 2
    assert found.card["geometry"] is None


def test_it_says_what_the_linear_run_says_unless_the_module_was_replaced(root, source, files, tmp_path):
    path, tested = linear_run(root, "ours", "--nobaselines", "--augment=v1")
    found = made(path, part="all")
    check(found.module, files, tested(source))
    assert found.card["geometry"]["patch_size"] == 8
    then = {**json.loads(read(path, "result.json"))["identity"], "steps": 900}
    with pytest.raises(ConfigError, match="learned on an encoder of 900 steps on photos, .*/ours is now one of 7 step"):
        made(with_result(path, tmp_path, identity=then), part="all")


@pytest.fixture(scope="module")
def probed(root):
    """(path, images -> logits) of a linear run on pixels."""
    return linear_run(root, "pixels", "--nobaselines", *GRID)


@pytest.fixture(scope="module")
def exported(root):
    """(directory, what the export returned) of a classifier on a third-party module, checked in a fresh process."""
    path, _ = few_labels(root, "theirs", FINE_TUNED)
    (root / "theirs").rename(root / "moved")
    try:
        with pytest.raises(ConfigError, match="the module that this run began with is needed"):
            made(path, part="all")
    finally:
        (root / "moved").rename(root / "theirs")
    output = f"{root}/exported"
    return output, run.export(ExportConfig(workdir=path, output=output))


def test_it_is_checked_in_a_fresh_process(exported):
    output, done = exported
    assert done["difference"] < 1e-5
    assert done["summary"].startswith("3 classes, weights of step 2; in a fresh process: largest difference ")
    assert {"saved_model.pb", "variables", "README.md", "classifier.json", "labels.txt"} <= set(os.listdir(output))
    assert read(output, "labels.txt") == "ant\nbee\nwasp\n"


def test_its_card_and_the_code_in_it(exported, capsys):
    card, text = json.loads(read(exported[0], "classifier.json")), read(exported[0], "README.md")
    assert (card["kind"], card["class_names"], card["several_labels"]) == ("classifier", NAMES, False)
    assert (card["image_size"], card["resize"], card["resize_mode"], card["levels"]) == (16, 22, "squash", None)
    assert (card["temperature"], card["calibration"]) == (2.5, RESULT["calibration"])
    assert (card["dataset"], card["figures"]) == ("folder:pictures", {"top1": 0.75})
    assert "is 4.0 % instead of 20.0 %" in text
    assert "step 2 | |\n|---|---|\n| top-1 | 9 of 12 right (75 %, 47 to 91) |\n\n" in text
    assert "$" not in text
    assert "/tmp" not in text + json.dumps(card)
    exec(python_of(text).replace("path/to/this/directory", exported[0]), {})
    name, share = capsys.readouterr().out.split()[-2:]
    assert name in NAMES
    assert 1 / 3 <= float(share) <= 1


def test_the_check_finds_what_is_different(probed, source, files, monkeypatch, in_process):
    path, tested = probed
    found = made(path, part="all")
    check(found.module, files, tested(source))
    reference = found.reference()
    monkeypatch.setattr(hub, "load", lambda path: found.module)
    found.module.signatures = {"serving_default": found.module.__call__, "bytes": found.module.from_bytes}
    assert check_module.check_classifier("", reference)["difference"] < 1e-5
    for name, change, message in (
        ("case1/logits", lambda x: x * 1.001, "the logits for 1x12x47x3 differ"),
        ("case0/logits", lambda x: -x, "the labels for"),
        ("file0/logits", lambda x: x + 1, "the logits for a file"),
        ("temperature", lambda x: x / 2, "the probabilities"),
        ("class_names", lambda x: x[::-1], "the classes are others"),
    ):
        with pytest.raises(check_module.NotTheSame, match=message):
            check_module.check_classifier("", {**reference, name: change(reference[name])})


def test_what_is_not_calibrated_says_so(probed, tmp_path):
    unfitted = {**RESULT["calibration"], "temperature": 1.0, "fitted": False}
    for folder, calibration, text in (("a", None, "no labels were held out"), ("b", unfitted, "all 6 held-out labels")):
        found = made(with_result(probed[0], tmp_path / folder, calibration=calibration), part="all")
        assert found.card["temperature"] == 1.0
        assert f"Not calibrated: {text}" in found.readme


def test_the_card_shows_a_class_that_is_never_found(probed, tmp_path):
    classes = {
        "ant": {"tested": 10, "predicted": 12, "right": 9},
        "bee": {"tested": 2, "predicted": 0, "right": 0},
        "wasp": {"tested": 0, "predicted": 0, "right": 0},
    }
    about = {"tested": 12, "class_mean": 0.45, "largest_class": 10 / 12, "classes": classes}
    found = made(with_result(probed[0], tmp_path, **about), part="all")
    assert (
        "| mean of the classes | 45.0 % |\n| always naming the largest class | 83.3 % |\n\nnote: only 12"
        in found.readme
    )
    assert "| `bee` | 2 | 0 | 0 | 0 % | - |\n| `ant` | 10 | 9 | 12 | 90 % | 75 % |\n\n" in found.readme
    assert (found.card["classes"], found.card["figures"]["class_mean"]) == (classes, 0.45)


def test_a_result_of_an_earlier_version_has_no_names(probed, tmp_path):
    with pytest.raises(ConfigError, match="no names of classes"):
        made(with_result(probed[0], tmp_path, class_names=[]), part="all")
