"""A run of detection -> its detector as a module."""

from __future__ import annotations

import functools
import os
from typing import Any

import tensorflow as tf

from cpc_tf.core.files import read_json
from cpc_tf.core.settings import ConfigError, flatten, replace
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.scoring import best_score, tested_on
from cpc_tf.detect.trainee import (
    CATEGORY_IDS,
    CLASS_NAMES,
    FINE_TUNED,
    FROZEN,
    WHOLE,
    build_detector,
)
from cpc_tf.encoders.card import module_name
from cpc_tf.export.detector import HubDetector, detector_reference
from cpc_tf.export.shared import (
    Export,
    dataset_name,
    missing_module_named,
    read_checkpoint,
    read_intensity_range,
    render,
    restore,
    result_of,
    result_of_ended,
    run_name,
    save_frozen,
    versions,
)


def export_detector(run: DetectConfig, workdir: str, step: int, weights: str) -> Export:
    """Restores the detector of a run, which has no averages: `weights` is not used."""
    path = os.path.join(workdir, CLASS_NAMES)
    if not tf.io.gfile.exists(path):
        raise ConfigError("workdir", workdir, f"has no {CLASS_NAMES}, so its training never began")
    names = read_json(path, list)
    phase, result = _last_phase(run, workdir)
    with missing_module_named(workdir):
        model = build_detector(
            replace(run, precision="float32", recompute=False, xla="off"), len(names)
        )
    step = read_checkpoint(
        os.path.join(workdir, phase), step, lambda path: restore(path, model=model)
    )
    ids = os.path.join(workdir, CATEGORY_IDS)
    card = {
        "class_names": names,
        "category_ids": read_json(ids) if tf.io.gfile.exists(ids) else {},
        "levels": read_intensity_range(workdir),
        "detector": {
            **flatten(run.detector),
            "encoder": module_name(run.detector.backbone.encoder),
        },
        "canvas": flatten(run.canvas),
        "recommended_score": (
            result.get("best_f1", {}).get("score") if result.get("steps") == step else None
        ),
        "split": run.data.split,
        "dataset": dataset_name(run.data.origin),
        "run": run_name(workdir),
        "step": step,
        "versions": versions("tensorflow-hub"),
    }
    return Export(
        kind="detector",
        module=HubDetector(model, run.canvas, names),
        save=save_frozen,
        card=card,
        readme=render(
            "detector",
            card=card,
            run=run,
            result=result,
            tested_on=tested_on(result),
            best_score=best_score(result),
        ),
        reference=functools.partial(detector_reference, model, run.canvas, names),
        summary=(
            f"{len(names)} class{'es' * (len(names) > 1)}, weights of step {step}; in a fresh"
            " process: {detections} detections, {same:.1%} of them the same"
        ),
    )


def _last_phase(run: DetectConfig, workdir: str) -> tuple[str, dict[str, Any]]:
    """Returns the phase that made the detector, and the result with its steps; of one phase it may
    not have ended.

    Raises:
      ConfigError: a run of two phases has not ended.
    """
    if not run.phases.frozen_epochs:
        return WHOLE, result_of(workdir)
    result = result_of_ended(workdir, "detect")
    phase = FINE_TUNED if result["phases"][FINE_TUNED]["steps"] else FROZEN
    return phase, {**result, "steps": result["phases"][phase]["steps"]}
