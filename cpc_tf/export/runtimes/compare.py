"""Compares a converted module, run in a fresh process by its runtime alone, with the SavedModel it was made of."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import numpy as np

from cpc_tf.evaluation.scores import nearest_neighbour_accuracy
from cpc_tf.export.runtimes import pictures
from cpc_tf.export.runtimes.config import KERAS3, TFLITE, RuntimeConfig
from cpc_tf.export.runtimes.subject import ENCODER, Subject
from cpc_tf.export.verify import NotVerified, run_script

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check_runtime.py")
TOLERANCE = 1e-4  # of float32: of any output, relative to its largest value
SIMILAR = 0.9  # of int8: least mean cosine between the outputs


def compare(
    made: Subject,
    directory: str,
    config: RuntimeConfig,
    representative: np.ndarray | None = None,
    labelled: tuple[np.ndarray, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Runs a converted module and the SavedModel on pictures: the embedded photographs, and those of the user.

    Args:
      made: the SavedModel.
      directory: of the converted module.
      config: how it was converted.
      representative: uint8 [N, S, S, 3], from which the ranges of int8 were chosen.
      labelled: uint8 [N, S, S, 3] and labels int64 [N].

    Returns:
      'difference': the largest of any output, relative to its largest value. 'similarity': the mean cosine between the
      vectors of both, on the 'pictures', which are the representative ones if there are any. 'accuracy': before and
      after, on the labelled pictures.

    Raises:
      NotVerified: the converted module cannot be used, or does something else.
    """
    cases = _cases(made, config, representative, labelled)
    got = _run(config.format, made.dtype.name, directory, cases)
    wanted = {
        f"{key}/{name}": values
        for key, images in cases.items()
        for name, values in made.outputs(key.partition("/")[0], images).items()
    }
    name = "photographs" if representative is None else "representative pictures"
    key = f"{made.kind}/{name}/{made.vector}"
    found = {
        "pictures": f"{len(wanted[key])} {name}",
        "difference": _difference(got, wanted, config.quantize == "none"),
        "similarity": _similarity(got[key], wanted[key]),
    }
    if not found["similarity"] >= SIMILAR:
        raise NotVerified(
            f"{made.vector} are too different: the mean cosine with those of the SavedModel is "
            f"{found['similarity']:.3f} on {found['pictures']}, less than {SIMILAR}"
        )
    if labelled:
        key = f"{made.kind}/labelled/{made.vector}"
        found["accuracy"] = _accuracy(made, got[key], wanted[key], labelled[1])
    return found


def _cases(
    made: Subject,
    config: RuntimeConfig,
    representative: np.ndarray | None,
    labelled: tuple[np.ndarray, np.ndarray] | None,
) -> dict[str, np.ndarray]:
    """Returns 'FUNCTION/CASE' -> images uint8 [N, H, W, 3] that both modules get; arguments as those of `compare`."""
    shown = pictures.photographs(made)
    cases = {f"{made.kind}/photographs": shown}
    if representative is not None:
        cases[f"{made.kind}/representative pictures"] = representative
    if config.quantize == "none" and config.format != KERAS3:
        cases.update({f"{name}/photographs": shown[:2] for name in list(made.functions)[1:]})
    if made.any_size and config.format != TFLITE:
        cases[f"{made.kind}/another_size"] = shown[:1, : made.side // 2 + 3]
    if labelled:
        cases[f"{made.kind}/labelled"] = labelled[0]
    return cases


def _run(format: str, dtype: str, directory: str, cases: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What check_runtime.py, in a fresh process, gets from the files in a directory."""
    with tempfile.TemporaryDirectory(prefix="cpc_tf_export") as scratch:
        images, outputs = os.path.join(scratch, "images.npz"), os.path.join(scratch, "outputs.npz")
        np.savez(images, **cases)
        run_script(SCRIPT, format, dtype, directory, images, outputs)
        return dict(np.load(outputs))


def _difference(got: dict[str, np.ndarray], wanted: dict[str, np.ndarray], exact: bool) -> float:
    """Returns the largest difference of any output, relative to its largest value. Raises NotVerified."""
    largest = 0.0
    for key, values in wanted.items():
        if key not in got or got[key].shape != values.shape:
            raise NotVerified(f"{key} has shape {got[key].shape if key in got else 'none'}, not {values.shape}")
        difference = float(np.abs(got[key] - values).max() / max(np.abs(values).max(), 1e-30))
        if not np.isfinite(difference) or (exact and difference > TOLERANCE):
            raise NotVerified(f"{key} differs from the SavedModel's by {difference:.1e} of its scale")
        largest = max(largest, difference)
    return largest


def _similarity(got: np.ndarray, wanted: np.ndarray) -> float:
    """Mean cosine between rows [N, D] that belong together, from the mean of those wanted on."""
    got, wanted = got - wanted.mean(0), wanted - wanted.mean(0)
    lengths = np.linalg.norm(got, axis=1) * np.linalg.norm(wanted, axis=1)
    return float(np.mean((got * wanted).sum(1) / np.maximum(lengths, 1e-30)))


def _accuracy(made: Subject, got: np.ndarray, wanted: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Accuracy on labelled pictures before ('savedmodel') and after ('converted')."""

    def top1(logits: np.ndarray, labels: np.ndarray) -> float:
        return float(np.mean(logits.argmax(1) == labels))

    if made.kind == ENCODER:
        found, score = {"measure": "10 nearest neighbours, leave-one-out"}, nearest_neighbour_accuracy
    else:
        found, score = {"measure": "top-1", "same_prediction": top1(got, wanted.argmax(1))}, top1
    return {**found, "pictures": len(labels), "savedmodel": score(wanted, labels), "converted": score(got, labels)}
