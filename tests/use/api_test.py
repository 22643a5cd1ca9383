"""The functions for Python: keywords are settings, images are those of their files, and their
examples are right.
"""

import doctest
import inspect
import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from PIL import Image

import cpc_tf
from cpc_tf.core import cli
from cpc_tf.core.settings import Stopped, flatten, unflatten
from cpc_tf.core.termination import Deferred
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders import networks
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.use import api
from tests import modules, samples
from tests.binaries import ROOT

RELEASED = "imagenette_128px"
CARD = json.loads((ROOT / "modules" / RELEASED / "encoder.json").read_text())
FUNCTIONS = {name: getattr(cpc_tf, name) for name in cpc_tf.__all__}
FINDER = doctest.DocTestFinder()
EXAMPLES = {
    test.name: test
    for name, value in FUNCTIONS.items()
    for test in FINDER.find(value, name)
    if test.examples
}
PAGE = ROOT / "docs/python.md"
EXAMPLES["page"] = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, "page", str(PAGE), 0)
# The presets that they name, with less to trace: what the examples show is the same.
SHORTER = {
    "photos/pretrain": [
        "--augment=none",
        "--directions=1",
        "--context_blocks=1",
        "--batch_size=4",
    ],
    "imagenette/linear": ["--batch_size=8"],
}


def test_keywords_are_settings_over_a_preset(tmp_path):
    values = {
        "workdir": tmp_path,
        "batch_size": 7,
        "mirror": False,
        "learning_rate": 0.1 + 0.2,
        "seed": None,
        "parts": 1,
    }
    found = flatten(api.settings_of(PretrainConfig, "photos/pretrain", values))
    assert found["workdir"] == str(tmp_path)
    assert (found["batch_size"], found["mirror"], found["learning_rate"]) == (7, False, 0.1 + 0.2)
    assert (found["seed"], found["parts"]) == (0, 1)  # of the preset
    assert found["dataset"] == "photos/15200"
    assert api.preset_of("photos", "pretrain") == "photos/pretrain"
    assert api.preset_of("voc/detect", "pretrain") == "voc/detect"


def test_comma_in_folder_name_does_not_split_it():
    folders = ["a, b", "c", 'd"e,']
    found = api.settings_of(PretrainConfig, None, {"unlabelled": folders})
    assert found.data.folders == folders
    assert (
        api.settings_of(PretrainConfig, None, {"unlabelled": ["a", "b"]}).data.unlabelled == "a,b"
    )
    assert api.settings_of(
        PretrainConfig, None, {"unlabelled": "~/a"}
    ).data.unlabelled == os.path.expanduser("~/a")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"bach_size": 3}, "bach_size: no such setting; did you mean batch_size?"),
        ({"batch_size": "many"}, "--batch_size=many: must be a whole number"),
        ({"batch_size": 3.5}, "--batch_size=3.5: must be a whole number"),
        ({"batch_size": 0}, "--batch_size=0: must be at least 1"),
        ({"workdir": "a\nb"}, "must be text without control characters"),
        ({"encoder": "tinny"}, "--encoder=tinny: must be one of"),
    ],
)
def test_a_wrong_keyword_is_an_exception(values, message):
    with pytest.raises(cpc_tf.ConfigError, match=message):
        cpc_tf.pretrain(**values)


def test_a_wrong_preset_is_an_exception():
    with pytest.raises(cpc_tf.ConfigError, match="no such preset; did you mean photos/"):
        cpc_tf.pretrain(preset="photo/pretrain")
    with pytest.raises(cpc_tf.ConfigError, match="name a preset of linear or efficient"):
        cpc_tf.train_classifier(encoder="x", preset="photos/pretrain")


@pytest.mark.slow
def test_a_function_has_the_name_of_a_package():
    """Whichever is imported first, from which module of the package ever."""
    code = """
from cpc_tf.pretrain.run import pretrain as run
import cpc_tf.use.embed
import cpc_tf
from cpc_tf import classify, embed, predict, pretrain
from cpc_tf.use import api
import cpc_tf.use.predict_config
functions = [classify, embed, predict, pretrain]
assert functions == [cpc_tf.classify, cpc_tf.embed, cpc_tf.predict, cpc_tf.pretrain]
assert functions == [api.classify, api.embed, api.predict, api.pretrain]
assert run is not pretrain
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_names_for_type_checkers_are_the_names():
    stub = (ROOT / "cpc_tf/__init__.pyi").read_text()
    assert {
        line.rpartition(" as ")[2] for line in stub.splitlines() if line.startswith("from")
    } == set(cpc_tf.__all__)
    for name in cpc_tf.__all__:
        assert inspect.getdoc(getattr(cpc_tf, name)), name
    with pytest.raises(AttributeError, match="has no attribute 'pretrian'"):
        cpc_tf.pretrian  # noqa: B018


def test_python_api_is_quiet_and_raises_keyboard_interrupt(capsys):
    for verbose in (False, True):
        with api.running(verbose):
            print("a line")
        assert capsys.readouterr().out == ("a line\n" if verbose else "")
    with pytest.raises(KeyboardInterrupt, match="step 3"), api.running(False):
        raise Stopped(signal.SIGINT, "saved step 3")
    with pytest.raises(Stopped), api.running(False):
        raise Stopped(signal.SIGTERM, "saved step 3")


def test_signal_handlers_are_restored_and_threads_set_none():
    before, seen = signal.getsignal(signal.SIGTERM), []

    def train():
        with Deferred() as stop:
            stop.begin()
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    train()
    assert seen[0] is before
    assert seen[1] is not before
    assert signal.getsignal(signal.SIGTERM) is before


# Features of images, and the examples of the docstrings and of docs/python.md.


@pytest.fixture(scope="module", autouse=True)
def _small_base():
    """The encoder of the released module has one narrow block of each kind, and as many features as
    it has.
    """
    stacks = networks.Stack(1, 4, 8, 1), networks.Stack(1, 4, CARD["feature_dim"], 2)
    architecture = networks.Architecture(
        stacks, stem_kernel=3, stem_width=8, stem_stride=4, stem_pool=False
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(networks.ARCHITECTURES, CARD["encoder"]["encoder"], architecture)
        yield


@pytest.fixture(scope="module")
def room(_small_base, tmp_path_factory):
    """The module is untrained; tests/released_module_test.py looks at the released one."""
    folder = tmp_path_factory.mktemp("api")
    samples.write_pictures(folder, {"my_pictures": 8}, side=40)
    settings, geometry = (
        unflatten(EncoderConfig, CARD["encoder"]),
        unflatten(GeometryConfig, CARD["geometry"]),
    )
    (folder / RELEASED).mkdir()
    modules.write_module(folder / RELEASED, settings, geometry)
    return folder


@pytest.fixture(scope="module")
def encoder(room):
    return cpc_tf.load_encoder(room / RELEASED)


@pytest.mark.slow
def test_arrays_pil_images_and_files_give_the_same(encoder, room):
    files = [
        room / f"my_pictures/{colour}/{i}.png" for colour in ("red", "green") for i in range(3)
    ]
    arrays = np.stack([np.asarray(Image.open(file)) for file in files])
    wanted = encoder.features(files)
    assert wanted.shape == (6, encoder.patches(files[0]).shape[-1])
    for images in (arrays, (arrays / 255).astype(np.float32), [Image.open(file) for file in files]):
        np.testing.assert_array_equal(encoder.features(images), wanted)
    for one in (arrays[2] / 255, str(files[2])):
        np.testing.assert_allclose(encoder.features(one), wanted[2:3], atol=1e-5)
    mirrored = encoder.features(arrays[:, :, ::-1])
    np.testing.assert_allclose(mirrored, wanted, atol=1e-3)  # pixels are rounded


@pytest.mark.slow
def test_patches_are_encoded_on_their_own(encoder, room):
    loaded = load_patch_encoder(encoder.path, patch_size=encoder.card.geometry.patch_size)
    image = encoder.prepare(np.asarray(Image.open(room / "my_pictures/red/0.png")))
    side, stride = encoder.card.geometry.patch_size, encoder.card.geometry.patch_stride
    patch = image[stride : stride + side, :side][None, None, None]
    latents = encoder.patches(room / "my_pictures/red/0.png")
    np.testing.assert_allclose(latents[0, 1, 0], loaded.patch_latents(patch)[0, 0, 0], atol=1e-5)


@pytest.mark.slow
def test_neighbours_are_sorted_and_named(encoder, room):
    folder = room / "my_pictures"
    (found,) = encoder.neighbours(folder / "green/4.png", folder, count=30)
    assert len(found) == 23  # the image itself is left out, however it is named
    assert "green/4.png" not in [near.name for near in found]
    (room / "link.png").symlink_to(folder / "green/4.png")
    assert encoder.neighbours([f"{room}/link.png"], folder, count=30) == [found]
    assert [near.similarity for near in found] == sorted(
        (near.similarity for near in found), reverse=True
    )
    arrays = np.random.default_rng(0).integers(0, 256, [3, 20, 20, 3], np.uint8)
    near = encoder.neighbours(arrays[1:], arrays)
    assert [sorted(one.index for one in row) for row in near] == [[0, 2], [0, 1]]


@pytest.fixture(scope="module")
def shorter(tmp_path_factory):
    """The folder of the presets."""
    folder = tmp_path_factory.mktemp("flags")
    for name, lines in SHORTER.items():
        (folder / name).parent.mkdir()
        (folder / f"{name}.flags").write_text("\n".join([cli.preset_text(name), *lines, ""]))
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_encoder")
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, room, shorter, monkeypatch, capfd):
    monkeypatch.chdir(room)
    monkeypatch.setattr(cli, "PRESETS", shorter)
    # The check of an export in a process of its own is that of tests/export.
    monkeypatch.setattr("cpc_tf.export.run.verify", lambda *_: {"difference": 0, "variables": 0})
    test, written = EXAMPLES[name], []
    failed, tried = doctest.DocTestRunner(verbose=False).run(
        test, out=written.append, clear_globs=False
    )
    assert tried > 0
    assert not failed, "".join(written)
    assert capfd.readouterr().out == ""
