"""What stands beside a converted module: README.md, and the line that the export ends with."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import tensorflow as tf

from cpc_tf.data.config import CROP, PAD, SQUASH
from cpc_tf.export import readme
from cpc_tf.export.runtimes.config import KERAS3, ONNX, TFLITE
from cpc_tf.export.runtimes.subject import CLASSIFIER, Subject

_TITLES = {TFLITE: "TFLite (LiteRT)", ONNX: "ONNX", KERAS3: "Keras 3"}
_QUANTIZED = {
    "weights": "the weights",
    "int8": "convolutions and matrix products, with their inputs and outputs; images and outputs are not",
}
_LIBRARIES = {TFLITE: (), ONNX: ("tf2onnx", "onnx", "onnxruntime"), KERAS3: ("keras",)}


def versions(format: str) -> dict[str, str]:
    """The versions of the libraries that wrote and ran the files of a format."""
    return {name: metadata.version(name) for name in ("tensorflow", *_LIBRARIES[format])}


def summary(found: dict[str, Any]) -> str:
    """The content of runtime.json as a line of text."""
    difference = f"largest difference {found['difference']:.0e}"
    if found["quantize"] != "none":
        difference = f"mean cosine with the SavedModel's outputs {found['similarity']:.4f}"
    size = sum(found["bytes"].values()) / 1e6
    return "; ".join([f"{found['kind']} for {_TITLES[found['format']]}, {size:.1f} MB", difference, *_accuracy(found)])


def page(made: Subject, found: dict[str, Any]) -> str:
    """The README of a converted module; `found` is the content of its runtime.json."""
    form, one = found["format"], found["format"] == TFLITE
    rows = [("made of", f"`{found['module']}`, whose card is in runtime.json")]
    rows += [(f"`{name}`", f"{size / 1e6:.2f} MB") for name, size in found["bytes"].items()]
    if found["quantize"] != "none":
        rows.append(("in 8 bits", _QUANTIZED[found["quantize"]]))
    rows += [
        ("largest difference of any output from the SavedModel's", f"{found['difference']:.1e} of its largest value"),
        (f"mean cosine of `{made.vector}` with the SavedModel's", f"{found['similarity']:.4f} ({found['pictures']})"),
        *(("accuracy of the SavedModel -> of this", line) for line in _accuracy(found)),
        ("software", readme.software(found["versions"])),
    ]
    sides = f"{made.side}, {made.side}" if one or not made.any_size else "height, width"
    takes = "uint8" if made.dtype == tf.uint8 else "float32, in [0, 1]"
    shown = {"kind": made.kind, "side": made.side, "vector": made.vector, "dtype": made.dtype.name}
    return readme.render(
        "runtimes/readme",
        title=f"{made.kind.capitalize()} `{found['module']}` for {_TITLES[form]}",
        module=found["module"],
        images=f"`[{1 if one else 'N'}, {sides}, 3]`, {takes}, RGB",
        view=_view(made.card.get("geometry") or made.card),
        side=made.side,
        outputs=_outputs(made, patched=form != KERAS3 and found["quantize"] == "none"),
        figures=readme.table(rows),
        use=readme.render(f"runtimes/{form}", most=256 if made.dtype == tf.uint8 else 1, **shown).strip(),
    )


def _outputs(made: Subject, patched: bool) -> str:
    if made.kind == CLASSIFIER:
        return f"`probabilities` and `logits`, `[N, {len(made.class_names)}]`, in the order of labels.txt"
    width = made.card["feature_dim"]
    latents = f". `patched` gives `latents`, `[N, R, C, {width}]`: each patch of the grid on its own"
    return f"`features`, `[N, {width}]`, and `feature_map`, `[N, h, w, {width}]`{latents if patched else ''}"


def _view(card: dict[str, Any]) -> str:
    """How a picture becomes an image for the model."""
    side = card["resize"]
    return {
        SQUASH: f"resized to {side} x {side}",
        CROP: f"resized until the shorter side is {side}",
        PAD: f"padded with grey to a square and resized to {side} x {side}",
    }[card.get("resize_mode", SQUASH)]


def _accuracy(found: dict[str, Any]) -> list[str]:
    if "accuracy" not in found:
        return []
    accuracy = found["accuracy"]
    before, after = (f"{100 * accuracy[name]:.1f} %" for name in ("savedmodel", "converted"))
    return [f"{accuracy['measure']} on {accuracy['pictures']} pictures: {before} -> {after}"]
