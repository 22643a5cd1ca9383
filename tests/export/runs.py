"""Runs on labels as they are left in their directories, made without training and without data."""

import json
import os

import numpy as np
import tensorflow as tf

from cpc_tf.efficient.classifier import FROZEN, Classification, build_classifier
from cpc_tf.encoders.load import load_feature_maps
from cpc_tf.files import write_file
from cpc_tf.settings import replace, to_flagfile
from cpc_tf.training.checkpoint import Checkpoints

NAMES = ["ant", "bee", "wasp"]
RESULT = {
    "num_classes": 3, "class_names": NAMES, "num_train_labels": 30, "label_fraction": 0.1, "levels": None, "top1": 0.75,
    "top5": 1.0, "steps": 2,
    "calibration": {
        "held_out": 6, "temperature": 2.5, "fitted": True, "ece_before": 0.2, "ece": 0.04, "tested": 12,
    },
}  # fmt: skip


def efficient_run(config, phase, steps=(2,)):
    """Writes a run on few labels whose last phase has checkpoints of these steps; returns what trained it."""
    chosen, seed = config.classifier, config.training.seed
    maps = load_feature_maps(
        chosen.encoder, chosen.endpoint, 16, backbone=chosen.backbone, seed=seed, precision=config.numerics.precision
    )
    classifier = build_classifier(config, phase, maps.map_shape(config.images.image_size), len(NAMES))
    trainee = Classification(maps, classifier, phase, config, steps[-1], tf.distribute.get_strategy())
    changed(classifier.variables if phase == FROZEN else [*maps.variables, *classifier.variables])
    changed(trainee.average.averages if trainee.average else [], by=0.2)
    folder = os.path.join(config.workdir, phase)
    for step in steps:
        Checkpoints(folder, trainee.checkpoint).save(step)
    write_file(f"{folder}/run.flags", to_flagfile(replace(config, batch_size=4)))  # the search chose them
    phases = {phase: {"steps": steps[-1], "top1": 0.75, "top5": 1.0}}
    write_run(config, "efficient", {"identity": maps.identity.to_json(), "phases": phases})
    return trainee


def changed(variables, by=0.1):
    """As if they had been trained."""
    for i, variable in enumerate(variables):
        if variable.dtype.is_floating:
            variable.assign(variable * (1 + by * np.cos(i)) + 0.01)


def write_run(config, task, found):
    """Writes the settings of a run and, unless `found` is None, its result: RESULT with what was found."""
    write_file(f"{config.workdir}/run.flags", to_flagfile(config))
    write_file(f"{config.workdir}/run.json", json.dumps({"task": task}))
    if found is not None:
        write_file(f"{config.workdir}/result.json", json.dumps({"kind": task, **RESULT, **found}))
