"""Third-party encoders, in each format, give what their authors compute; what is damaged or of no
use is one line.
"""

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient
from cpc_tf.encoders import third_party
from cpc_tf.encoders.card import RANGES
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from tests import modules, samples
from tests.encoders.conftest import write_theirs

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_block")]
SCRIPT = pathlib.Path(__file__).parent / "third_party/write.py"
# Encoder with {} for its folder, signature, output, and the author's values of that output.
ENCODERS = [
    ("-1..1:{}/call", "", "", "call/"),
    ("0..255:{}/bytes", "embed", "map", "bytes/map"),
    ("-1..1:{}/tf1", "encode", "bn_crelu_feat", "tf1/bn_crelu_feat"),
    ("-1..1:{}/tf1", "encode", "normal:0", "tf1/normal:0"),
    ("-1..1:{}/tf1", "encode", "before:bn_crelu_feat", "tf1/concatenated:0"),
    ("-1..1:{}/keras", "serving_default", "output_0", "keras/"),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folder that the script wrote, in a process that imports nothing of this project."""
    path = tmp_path_factory.mktemp("theirs")
    subprocess.run([sys.executable, SCRIPT, path], check=True, capture_output=True, timeout=300)
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return samples.write_pictures(
        tmp_path_factory.mktemp("pictures") / "pictures", {"train": 4, "val": 2}, side=32
    )


def images(written):
    return tf.image.convert_image_dtype(np.load(written / "reference.npz")["images"], tf.float32)


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize(("encoder", "signature", "output", "wanted"), ENCODERS)
def test_outputs_are_those_that_the_author_computes(written, encoder, signature, output, wanted):
    text, seen = encoder.format(written), images(written)
    wanted = np.load(written / "reference.npz")[wanted]
    maps = load_feature_maps(text, output, 16, backbone="tiny", signature=signature)(seen)
    np.testing.assert_allclose(np.reshape(maps, wanted.shape), wanted, rtol=1e-4, atol=1e-4)
    frozen = load_patch_encoder(text, patch_size=16, signature=signature, endpoint=output)
    pooled = wanted.mean((1, 2)) if wanted.ndim == 4 else wanted
    np.testing.assert_allclose(frozen.vectors(seen), pooled, rtol=1e-4, atol=1e-4)
    assert frozen.trainable_variables == []


@pytest.mark.usefixtures("loaded_once")
def test_default_signature_and_sole_output_need_no_names(written):
    frozen = load_patch_encoder(f"-1..1:{written}/served", patch_size=16)
    wanted = np.load(written / "reference.npz")["served/vector"]
    np.testing.assert_allclose(frozen.vectors(images(written)), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "mode"), [("-1..1", "tf"), ("torch", "torch"), ("caffe", "caffe")]
)
def test_ranges_are_those_of_keras_applications(name, mode):
    pixels = np.random.default_rng(0).integers(0, 256, [2, 5, 4, 3]).astype(np.float32)
    wanted = keras.applications.imagenet_utils.preprocess_input(pixels.copy(), mode=mode)
    np.testing.assert_allclose(RANGES[name](tf.constant(pixels / 255)), wanted, atol=1e-4)


MODE = (
    "cannot be fine-tuned, since a {} computes as it was exported: it has no mode for training;"
    " use it frozen"
)
REFUSED = [  # encoder, signature, output, what is said, and whether it shall be trained
    ("{}/bytes", "", "map", "name one of its signatures, embed, generate: --signature=embed$"),
    ("{}/bytes", "encode", "map", "^--signature=encode: .* has the signatures embed, generate$"),
    ("{}/call", "encode", "", "^--signature=encode: .* has no signatures$"),
    (
        "{}/bytes",
        "generate",
        "image",
        r"signature generate takes z float32 \(None, 20\), not a batch of images",
    ),
    (
        "{}/bytes",
        "embed",
        "map",
        "signature embed takes uint8, whole numbers; use --encoder=0..255:/",
    ),
    (
        "0..255:{}/bytes",
        "embed",
        "count",
        "--endpoint=count: .* maps or vectors map, vector, but int32",
    ),
    ("0..255:{}/bytes", "embed", "vector", MODE.format("signature"), True),
    (
        "-1..1:{}/tf1",
        "encode",
        "feature_map",
        "has the feature maps or vectors avepool_feat, bn_crelu_feat, def",
    ),
    ("-1..1:{}/tf1", "encode", "avepool_feat", MODE.format("module of TF1 format"), True),
    (
        "-1..1:{}/tf1",
        "encode",
        "none:0",
        "^--endpoint=none:0: no such tensor in .*; maps of its graph, .* concatenated:0",
    ),
    (
        "0..255:{}/bytes",
        "embed",
        "before:vector",
        "^--endpoint=before:vector: .* is not a module of TF1 format; name one",
    ),
    (
        "random",
        "encode",
        "",
        "--signature=encode: is only for third-party modules, not for --encoder=random",
    ),
]


@pytest.mark.usefixtures("loaded_once")
def test_what_cannot_be_is_said_in_one_line(written):
    for encoder, signature, output, said, *trained in REFUSED:
        more = {"frozen_by": "x"} if trained else {}
        with pytest.raises(ConfigError, match=said) as error:
            load_feature_maps(
                encoder.format(written), output, 16, backbone="tiny", signature=signature, **more
            )
        assert "\n" not in str(error.value)
    with pytest.raises(
        ConfigError, match="images of 16 x 16 px, not of 32 x 32 px: set --image_size"
    ):
        load_patch_encoder(
            f"-1..1:{written}/tf1", patch_size=32, signature="encode", endpoint="avepool_feat"
        )


@pytest.mark.usefixtures("loaded_once")
def test_signature_without_range_reports_the_assumed_range(written, caplog):
    for encoder in (f"0..1:{written}/tf1", f"{written}/tf1"):
        assert "is given pixels" not in caplog.text
        load_patch_encoder(encoder, patch_size=16, signature="encode", endpoint="avepool_feat")
    assert (
        f"is given pixels in [0, 1]; name its range if it is another, as --encoder=-1..1:{written}"
        in caplog.text
    )


def test_training_updates_kernels_and_statistics(written):
    maps = load_feature_maps(f"-1..1:{written}/call", "", 16, backbone="tiny", frozen_by="x")
    before = [variable.numpy() for variable in maps.non_trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(maps(images(written), training=True) ** 2)
    assert all(np.any(gradient) for gradient in tape.gradient(loss, maps.trainable_variables))
    assert all(np.any(old != new.numpy()) for old, new in zip(before, maps.non_trainable_variables))
    identity = maps.identity
    assert (identity.trained_by, identity.architecture, identity.module) == ("unknown", "", "call")


@pytest.mark.parametrize("task", ["linear", "efficient"])
def test_the_binaries_ask_the_signature_for_its_outputs(written, pictures, tmp_path, task):
    run, config = {"linear": (linear, LinearConfig), "efficient": (efficient, EfficientConfig)}[
        task
    ]
    given = (
        "--resize=16 --image_size=16 --test_split=val --strategy=single --signature=encode"
        " --endpoint=none".split()
    )
    given += [
        f"--dataset=folder:{pictures}",
        f"--data_dir={tmp_path}/cache",
        f"--workdir={tmp_path}/run",
    ]
    if task == "linear":
        given += ["--nobaselines", "--augment=none"]
        given += ["--geometry_from=flags", "--patch_size=16", "--patch_stride=16"]
    with pytest.raises(
        ConfigError, match="^--endpoint=none: .* has the feature maps or vectors avepool_feat"
    ):
        run(cli.parse(config, [*given, f"--encoder=-1..1:{written}/tf1"]))


# Modules that are damaged, or made for something else.


def maps(path):
    return load_feature_maps(str(path), "feature_map", 16, backbone="tiny")


def latents(path):
    return load_patch_encoder(str(path), patch_size=8)


def refusal(function, *arguments):
    """The message of the refusal, which is one line."""
    with pytest.raises(ConfigError, match="--encoder=") as caught:
        function(*arguments)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 1000
    return str(caught.value)


@pytest.mark.usefixtures("loaded_once")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: (x, x), "a tuple|outputs named"),
        (lambda x: tf.cast(x, tf.int32), "int32"),
        (lambda x: tf.reduce_mean(x), r"\(\)"),
        (lambda x: x[:, None], r"\(None, 1, "),
        (lambda x: {"other": x, "more": x}, "other"),
        (lambda x: {"default": tf.cast(x, tf.int32), "feature_map": tf.cast(x, tf.int32)}, "int32"),
        (lambda x: {"default": (x, x), "feature_map": {"a": x}}, "a tuple|a dict"),
        (lambda x: tf.strings.as_string(x), "string"),
        (lambda x: x[:1], r"makes \(1, "),
        (lambda x: x[:, :0], "makes .*0|not finite"),
        (lambda x: x / 0, "not finite"),
        (lambda x: tf.io.parse_tensor(tf.io.serialize_tensor(x), tf.float32), "unknown"),
        (lambda x: tf.reshape(x, [7, 7, 7, 3]), "does not take images .*evenly divisible"),
        (lambda x: tf.ensure_shape(x, [7, None, None, 3]), "cannot be run on images"),
        (None, "cannot be called with images"),
    ],
)
def test_modules_that_give_something_else(tmp_path, call, said):
    if call:
        write_theirs(tmp_path / "theirs", call)
    else:
        tf.saved_model.save(tf.Module(), str(tmp_path / "theirs"))
    for load in (maps, latents):
        assert re.search(said, refusal(load, tmp_path / "theirs"))


def test_whatever_loading_raises_is_one_line(monkeypatch, tmp_path):
    for error in (
        IndexError("Read less\nbytes"),
        KeyError("x"),
        AttributeError(),
        UnicodeDecodeError("a", b"", 0, 1, "x"),
    ):

        def load(handle, error=error):
            raise error

        monkeypatch.setattr(third_party.hub, "load", load)
        for function in (maps, latents):
            assert "cannot be loaded as a TF-Hub module (" in refusal(function, str(tmp_path))


def test_damaged_files_of_our_module(ours, tmp_path):
    """A card that is damaged, too, is found before the training, not when its result is written."""
    for name in (
        "saved_model.pb",
        "variables/variables.index",
        "variables/variables.data-00000-of-00001",
    ):
        copied = shutil.copytree(ours[0], tmp_path / name.replace("/", "_"))
        (copied / name).write_bytes((copied / name).read_bytes()[:100])
        refusal(latents, f"graph:{copied}")
        if name != "saved_model.pb":  # the network needs only the values
            refusal(maps, copied)
    (copied / "encoder.json").write_text((copied / "encoder.json").read_text()[:50])
    for load in (maps, latents):
        assert "its encoder.json is damaged" in refusal(load, copied)


def test_module_unsupported_by_xla_is_found_at_loading(tmp_path, caplog, two_replicas):
    write_theirs(tmp_path / "fine", lambda x: tf.nn.avg_pool2d(x, 2, 2, "SAME"))
    tf.saved_model.save(modules.NotForXla(), str(tmp_path / "not"))
    with two_replicas.scope():
        for name, wanted in (("fine", True), ("not", False)):
            assert (
                load_feature_maps(str(tmp_path / name), "", 16, backbone="tiny", xla=True).compiles
                is wanted
            )
            assert (
                load_patch_encoder(str(tmp_path / name), patch_size=16, xla=True).compiles is wanted
            )
    messages = [record.getMessage() for record in caplog.records if "--xla" in record.getMessage()]
    begins = (
        f"--xla: not used, since XLA cannot compile --encoder={tmp_path}/not (it has no AsString"
    )
    assert [message.startswith(begins) for message in messages] == [True, True]
