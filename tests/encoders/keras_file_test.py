"""A Keras file of a stranger: what runs code or reads other files is refused before Keras builds any of it."""

import io
import json
import zipfile

import h5py
import numpy as np
import pytest

from cpc_tf.encoders import keras_parts
from cpc_tf.encoders.keras_file import open_file
from cpc_tf.keras import keras
from cpc_tf.settings import ConfigError

LAMBDA = {
    "class_name": "Lambda",
    "config": {"name": "evil", "function": ["4wEA", None, None], "function_type": "lambda"},
}
CODE = "its part evil is a Lambda, code of its author, which is not run"


def layer(name="Dense", config=(), **more):
    return {"class_name": name, "config": {"name": "own", **dict(config)}, **more}


def model(*layers):
    return layer("Sequential", {"layers": list(layers)})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (model(layer(), LAMBDA), CODE),
        (model(model(layer("TimeDistributed", {"layer": LAMBDA}))), CODE),
        (model(layer("Bidirectional", {"layer": layer("LSTM"), "backward_layer": LAMBDA})), CODE),
        (model(layer(config={"activation": {"class_name": "__lambda__", "config": {"value": "4wEA"}}})), "is a Lambda"),
        (
            model(layer(config={"activation": {"class_name": "function", "config": "system", "module": "os"}})),
            "a part of it is os.function",
        ),
        (
            model(layer(config={"activation": {"class_name": "function", "config": "eval", "module": "builtins"}})),
            "a part of it is function, which is not among",
        ),
        (model(layer(registered_name="theirs>Dense")), "its part own is theirs>Dense, which is not among"),
        (model(layer(module="theirs.layers")), "its part own is theirs.layers.Dense, which is"),
        (model(layer(module="keras.utils", name="get_file")), "its part own is get_file, which is"),
        (model(layer("StringLookup", {"vocabulary": "/etc/passwd"})), "its part own is StringLookup"),
        (model(layer("TensorFlowOpLayer", {"node_def": '{"op": "WriteFile"}'})), "its part own is TensorFlowOpLayer"),
        (model(layer("TFOpLambda", {"function": "io.write_file"})), "its part own calls io.write_file"),
        (model(layer(["Dense"])), "is not among the layers of Keras"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_parts_that_may_run_code_are_refused_at_any_depth(config, said):
    with pytest.raises(keras_parts.Refused, match=said.replace("(", r"\(")):
        keras_parts.checked(config)


def test_parts_of_keras_are_built_as_before():
    inputs = keras.Input([8, 8, 3])
    maps = keras.layers.Conv2D(2, 3, activation="swish", kernel_regularizer="l2")(inputs / 127.5 - 1)
    made = keras.Model(inputs, keras.layers.GlobalAveragePooling2D(dtype="mixed_float16")(maps[:, 1:]))
    for config in (json.loads(made.to_json()), keras.utils.serialize_keras_object(made)):
        plain = json.loads(json.dumps(config))
        assert keras_parts.checked(plain) == plain
    training = {"loss": {"class_name": "function", "config": "theirs", "module": "__main__"}}
    assert keras_parts.checked({**plain, "compile_config": training}) == plain


def point_elsewhere(file):
    layout = h5py.VirtualLayout((1,), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (1,))
    file.create_virtual_dataset("view", layout)


def linked(path, change):
    """A weights file in which something is odd."""
    with h5py.File(path, "w") as file:
        file["kernel"] = np.zeros(3)
        change(file)
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda file: file.__setitem__("a/b", h5py.ExternalLink("/etc/passwd", "/x")),
            "b lies in another file, /etc/pa",
        ),
        (
            lambda file: file.create_dataset("raw", [4], "u1", external=[("/etc/passwd", 0, 4)]),
            "values of its raw lie in",
        ),
        (point_elsewhere, "the values of its view lie in another file"),
        (lambda file: file.create_dataset("huge", [2**40], "f4", chunks=True), "says that it holds 4398.0 GB"),
        (lambda file: file.__setitem__("self", file["/"]), ""),
    ],
    ids=["link", "raw", "view", "huge", "loop"],
)
def test_weights_lie_in_the_file_itself(tmp_path, change, said):
    path = linked(tmp_path / "weights.h5", change)
    with h5py.File(path) as file:
        if not said:
            return keras_parts.check_hdf5(file, path.stat().st_size)
        with pytest.raises(keras_parts.Refused, match=said):
            keras_parts.check_hdf5(file, path.stat().st_size)


def write_h5(path, config):
    with h5py.File(path, "w") as file:
        file.attrs["keras_version"], file.attrs["model_config"] = "2.15.0", json.dumps(config)


def write_archive(path, config):
    weights = io.BytesIO()
    h5py.File(weights, "w").close()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "2.15.0"}))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr("model.weights.h5", weights.getvalue())


@pytest.mark.parametrize(("name", "write"), [("x.h5", write_h5), ("x.hdf5", write_h5), ("x.keras", write_archive)])
def test_nothing_of_such_a_file_is_built(tmp_path, monkeypatch, name, write):
    monkeypatch.setattr(keras.models, "load_model", lambda *_, **__: pytest.fail("it is built"))
    write(tmp_path / name, model(LAMBDA))
    with pytest.raises(ConfigError, match=f"^--encoder=0..1:x: {CODE}; in the program .* model.export"):
        open_file(str(tmp_path / name), "", "0..1:x", "endpoint", False)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    write_archive(tmp_path / "x.keras", model(layer("Dense", {"name": "x" * 2**20})))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keras_parts, "_FEW_BYTES", 1000)
        with pytest.raises(ConfigError, match="says that it holds 0.0 GB, and has 0.0 MB; it is damaged"):
            open_file(str(tmp_path / "x.keras"), "", "x", "endpoint", False)
