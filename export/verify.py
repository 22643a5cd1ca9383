"""The check of every export: compares what the written module computes, without cpc_tf, with the
checkpoint's model.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from cpc_tf.core.settings import RunEnded

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
TOLERANCE = 1e-5  # of features, relative to the largest of them
GRADIENT_TOLERANCE = 1e-3  # of a gradient's norm
SCORE_TOLERANCE = 1e-4  # of a detection's score
BOX_TOLERANCE = 0.01  # of its box, in pixels per 100
SAME = 0.9  # part of the detections that must be the same: rounding decides what suppresses what

Arrays = Mapping[str, np.ndarray]


class NotVerified(RunEnded):
    """The module is not what it should be; one line."""

    status = 3


class Reference(NamedTuple):
    """The inputs of a module's check, as check.py describes them for its kind, and the outputs it
    should compute.
    """

    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]


def verify(kind: str, module: str, reference: Reference) -> dict[str, float]:
    """Compares a module with the model that it was made of, in a fresh process without cpc_tf.

    Args:
      kind: 'encoder', 'classifier' or 'detector'.
      module: path of the SavedModel.
      reference: inputs, and the outputs of the model.

    Returns:
      Encoder: 'difference', the largest of any output relative to its scale, and 'variables', how
        many can be trained.
      Classifier: 'difference', likewise.
      Detector: 'detections', how many were compared, and 'same', the part that is the same
        (rounding may change some).

    Raises:
      NotVerified: the module computes something else, or cannot be used.
    """
    compare = {
        "encoder": compare_encoder,
        "classifier": compare_classifier,
        "detector": compare_detector,
    }[kind]
    return compare(computed(kind, module, reference.inputs), reference)


def computed(
    kind: str, directory: str, inputs: Arrays, script: str = SCRIPT
) -> dict[str, np.ndarray]:
    """Returns what a module computes in check.py, in a fresh process. Raises NotVerified if it
    cannot be used.

    On the CPU, as in this process: a GPU rounds differently, and may be taken.
    """
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        arrays = [os.path.join(scratch, name) for name in ("inputs.npz", "outputs.npz")]
        np.savez(arrays[0], **inputs)
        # Not with `python -I`, which would hide a TensorFlow installed with `pip install --user`.
        command = [sys.executable, script, kind, directory, *arrays]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode < 0:
            raise NotVerified(
                f"the check was killed by signal {-done.returncode}; is there enough memory?"
            )
        if done.returncode:
            raise NotVerified(
                (done.stderr.strip().splitlines() or ["the check failed without a message"])[-1]
            )
        return dict(np.load(arrays[1]))


def difference(
    output: str,
    got: np.ndarray | None,
    wanted: np.ndarray,
    tolerance: float = TOLERANCE,
    source: str = "checkpoint",
) -> float:
    """Returns the largest difference, relative to the largest wanted value.

    Raises:
      NotVerified: the shapes differ, values are not finite, or the difference is above the
        tolerance.
    """
    if got is None or got.shape != wanted.shape:
        raise NotVerified(
            f"{output} has shape {'none' if got is None else got.shape}, not {wanted.shape}"
        )
    if not wanted.size:
        return 0.0
    if not np.all(np.isfinite(wanted)):
        raise NotVerified(f"{output} is not finite in the {source}")
    error = float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not (np.isfinite(error) and error <= tolerance):
        raise NotVerified(f"{output} differs from the {source}'s by {error:.1e} of its scale")
    return error


def differences(got: Arrays, wanted: Arrays) -> float:
    """Returns the largest difference of any output 'CASE/NAME', in each way 'CASE/WAY/NAME' that it
    was computed.

    Raises:
      NotVerified: one is too large, or an output is missing.
    """
    errors = {}
    for key, values in got.items():
        case, *way, name = key.split("/")
        expected = wanted.get(f"{case}/{name}")
        if way and expected is not None:
            expected = expected[:0] if way == ["no image"] else expected
            errors[key] = difference(f"{name} of {case} by {way[0]}", values, expected)
    missing = set(wanted) - {"/".join(key.split("/")[::2]) for key in errors}
    if missing:
        raise NotVerified(f"{min(missing)} is missing")
    return max(errors.values())


def compare_encoder(got: Arrays, reference: Reference) -> dict[str, float]:
    """Compares what it computes, the gradients of all variables, and that a step along them changes
    something.
    """
    wanted = dict(reference.outputs)
    norms = wanted.pop("gradient/norms")
    largest = differences(got, wanted)
    got_norms = got["gradient/norms"]
    if len(got_norms) != len(norms):
        raise NotVerified(f"{len(got_norms)} variables can be trained, not {len(norms)}")
    for name, norm, expected in zip(got["gradient/variables"], got_norms, norms):
        if not norm > 0 or not abs(norm - expected) <= GRADIENT_TOLERANCE * expected:
            raise NotVerified(f"the gradient of {name} has norm {norm:.4g}, not {expected:.4g}")
    if not np.all(np.isfinite(got["step/after"])) or np.array_equal(
        got["step/before"], got["step/after"]
    ):
        raise NotVerified("a step of gradient descent does not change the output as it should")
    return {"difference": largest, "variables": len(norms)}


def compare_classifier(got: Arrays, reference: Reference) -> dict[str, float]:
    """Compares logits, and whether probabilities, labels and names follow from them."""
    wanted = dict(reference.outputs)
    names, temperature, several = (
        wanted.pop(key) for key in ("names/classes", "temperature", "multi_label")
    )
    if _texts(got["names/classes"]) != names.tolist():
        raise NotVerified("the classes differ")
    largest = differences(got, wanted)
    for key in (key for key in got if key.endswith("/logits")):
        case, way, _ = key.split("/")
        where = f"{case} by {way}"
        # Of the module's own logits, which may be rounded in another way: a temperature below 1
        # would enlarge that.
        scaled = got[key].astype(np.float64) / temperature
        odds = np.exp(scaled - scaled.max(1, keepdims=True))
        shares = 1 / (1 + np.exp(-scaled)) if several else odds / odds.sum(1, keepdims=True)
        shift = difference(f"probabilities of {where}", got[f"{case}/{way}/probabilities"], shares)
        largest = max(largest, shift)
        labels = wanted[f"{case}/logits"].argmax(1)[: len(scaled)]
        if not np.array_equal(got[f"{case}/{way}/label"], labels):
            raise NotVerified(f"the labels of {where} differ")
        if _texts(got[f"{case}/{way}/name"]) != names[labels].tolist():
            raise NotVerified(f"the names of {where} are not those of the labels")
    return {"difference": largest}


def compare_detector(got: Arrays, reference: Reference) -> dict[str, float]:
    """Compares detections of any score, the threshold of the call, and the signature with the
    call.
    """
    names = reference.outputs["names/classes"]
    least_score = reference.outputs["least_score"]
    if _texts(got["names/classes"]) != names.tolist():
        raise NotVerified(f"the classes are {', '.join(_texts(got['names/classes']))}")
    total = same = 0
    for case, images in reference.inputs.items():
        every, called, served, empty = (
            _of(got, f"{case}/{way}") for way in ("any", "call", "signature", "no image")
        )
        wanted = _of(reference.outputs, case)
        for name, values in wanted.items():
            if every[name].shape != values.shape or not np.all(np.isfinite(values)):
                raise NotVerified(
                    f"{name} has shape {every[name].shape}, not {values.shape}, or is not finite"
                )
        for i, count in enumerate(wanted["count"]):
            one = {name: x[i, : every["count"][i]] for name, x in every.items() if name != "count"}
            if _texts(one["names"]) != names[one["labels"]].tolist():
                raise NotVerified("the names are not those of the labels")
            boxes, scores, labels = (
                wanted[name][i, :count, None] for name in ("boxes", "scores", "labels")
            )
            # [wanted, got]
            near = np.abs(one["boxes"] - boxes).max(2) <= BOX_TOLERANCE * max(images.shape) / 100
            near &= (np.abs(one["scores"] - scores) <= SCORE_TOLERANCE) & (one["labels"] == labels)
            same += int(near.any(1).sum())
            total += int(count)
        for name in ("boxes", "scores"):  # TensorFlow may round in another way in another graph
            difference(f"{name} of the signature", served[name], called[name])
        if not all(
            np.array_equal(called[name], served[name]) for name in ("labels", "names", "count")
        ):
            raise NotVerified("the signature and the call give different outputs")
        # The best are never suppressed by worse ones, so a threshold only cuts off.
        if not np.array_equal(called["count"], (every["scores"] > least_score).sum(1)):
            raise NotVerified("the call has another threshold")
        if any(x.shape != (0, *called[name].shape[1:]) for name, x in empty.items()):
            raise NotVerified("the output for no image has the wrong shape")
    if not total or same < SAME * total:
        raise NotVerified(f"{same} of {total} detections are the checkpoint's")
    return {"detections": total, "same": same / total}


def _texts(values: np.ndarray) -> list[str]:
    return np.char.decode(values, "utf-8").tolist()


def _of(arrays: Arrays, begin: str) -> dict[str, np.ndarray]:
    """Those whose names begin so, by the rest."""
    return {
        name.removeprefix(f"{begin}/"): x
        for name, x in arrays.items()
        if name.startswith(f"{begin}/")
    }
