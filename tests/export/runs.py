"""Runs as they are left in their directories, made without training, and without data but for the
tests of `root`.
"""

import json
import os
from types import SimpleNamespace

import numpy as np
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.files import write_file
from cpc_tf.core.settings import replace, to_flagfile
from cpc_tf.data import pipeline
from cpc_tf.efficient.classifier import FROZEN, Classification, build_classifier
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.encoders.load import load_feature_maps, load_patch_encoder
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, geometry_of
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining, build_model
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.workdir import REFIT
from tests.detect.samples import SMALL, detector_training

IMAGES = np.random.default_rng(1).uniform(size=[2, 32, 24, 3]).astype(np.float32)
NAMES = ["ant", "bee", "wasp"]
RESULT = {
    "num_classes": 3,
    "class_names": NAMES,
    "num_train_labels": 30,
    "label_fraction": 0.1,
    "levels": None,
    "top1": 0.75,
    "steps": 2,
    "tested": 12,
    "calibration": {
        "held_out": 6,
        "temperature": 2.5,
        "fitted": True,
        "ece_before": 0.2,
        "ece": 0.04,
        "tested": 12,
    },
}
SIDES = ["--resize=22", "--image_size=16"]
EFFICIENT = [
    *SIDES, "--backbone=small", "--batch_size=2", "--train_steps=2", "--head_blocks=1",
    "--head_width=8", "--strategy=single", "--test_split=val",
]  # fmt: skip
GRID = ["--geometry_from=flags", "--augment=none", *SIDES, "--patch_size=8", "--patch_stride=4"]
LINEAR = ["--batch_size=3", "--strategy=single", "--test_split=val"]
PRETRAIN = (
    "--resize=32", "--image_size=32", "--patch_size=16", "--patch_stride=4", "--encoder=small",
    "--output_stack=1", "--batch_size=2", "--recompute", "--directions=1",
    "--context_blocks=1", "--context_dim=8", "--precision=bfloat16", "--split=unlabelled",
    "--dataset=folder:/home/someone/birds",
)  # fmt: skip
# The head is the encoder's own last stack, exported as it was trained.
DETECT = replace(
    SMALL, dataset="voc:/home/someone/insects", rpn_test_proposals=40, detection_score=0.2,
    backbone_endpoint="stack2", backbone_norm="layer", region_head="encoder",
)  # fmt: skip


def pretraining_run(path):
    """Returns its `config`, `path`, and the float32 encoder's `features` of IMAGES {(weights,
    step): [2, D]}.
    """
    config = cli.parse(PretrainConfig, [*PRETRAIN])
    training = Pretraining(config, tf.distribute.get_strategy(), train_steps=9)
    twin = build_model(replace(config, precision="float32"))
    features = {}
    for step in (7, 9):
        for i, average in enumerate(training.average.averages):
            average.assign(average * (1 + 0.1 * np.sin(i + step)))
        for i, variable in enumerate(training.model.trainable_variables):
            variable.assign(variable * (1 + 0.1 * np.cos(i + step)))
        Checkpoints(path, training.checkpoint).save(step)
        for weights, values in (
            ("raw", training.model.variables),
            ("averaged", training.average.averages),
        ):
            for variable, value in zip(twin.trainable_variables, values):
                variable.assign(value)
            features[weights, step] = twin.encoder(IMAGES).numpy()
    write_file(f"{path}/run.flags", to_flagfile(config))
    write_file(f"{path}/run.json", json.dumps({"task": "pretrain"}))
    write_file(
        f"{path}/result.json", json.dumps({"kind": "pretrain", "step": 9, "loss": 4.25, "knn": 0.5})
    )
    return SimpleNamespace(config=config, path=path, features=features)


def detector_run(path):
    """Returns what trained it."""
    training, draw = (
        detector_training(DETECT, classes=len(NAMES), steps=9),
        np.random.default_rng(0),
    )
    for variable in training.model.detector_variables:  # as if trained: sure of what it sees
        variable.assign(variable + draw.normal(0, 0.1, variable.shape))
    for variable in training.model.encoder_variables:
        variable.assign(1.1 * variable)
    Checkpoints(path, training.checkpoint).save(9)
    write_file(f"{path}/run.flags", to_flagfile(DETECT))
    write_file(f"{path}/run.json", json.dumps({"task": "detect"}))
    write_file(f"{path}/class_names.json", json.dumps(NAMES))
    write_file(f"{path}/levels.json", json.dumps({"levels": [3.0, 900.0]}))
    result = {
        "kind": "detect",
        "steps": 9,
        "map11": 0.25,
        "map_all": 0.5,
        "test_split": "test",
        "iou": 0.5,
    }
    best = {
        "score": 0.35,
        "right": 18,
        "boxes": 20,
        "objects": 24,
        "precision": 0.9,
        "recall": 0.75,
    }
    more = {"map50": 0.45, "map50_95": 0.3, "best_f1": best}
    write_file(
        f"{path}/result.json", json.dumps({**result, **more, "test_images": 8, "test_boxes": 24})
    )
    return training


def few_labels(root, encoder, phase, *flags):
    """A run on few labels without training: (its path, images -> logits)."""
    path = f"{root}/runs/{phase}{encoder}{len(flags)}"
    named = encoder.replace("ours", f"{root}/ours").replace("theirs", f"{root}/theirs")
    data = [f"--dataset=folder:{root}/pictures", f"--encoder={named}", f"--workdir={path}"]
    config = cli.parse(EfficientConfig, [*EFFICIENT, *data, *flags])
    trainee, policy = efficient_run(config, phase), config.augment.policy
    return (
        path,
        lambda source: trainee.logits(
            pipeline.plain_images(source, config.images, 2, policy=policy)
        )[0],
    )


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
    trainee = LinearTraining(
        config, encoder.patch_latents, shape, len(NAMES), tf.distribute.get_strategy()
    )
    changed(trainee.classifier.variables)
    Checkpoints(path, trainee.checkpoint).save(2)
    write_run(config, "linear", {"identity": encoder.identity.to_json()})
    return (
        path,
        lambda source: trainee.test(pipeline.plain_patches(source, geometry, 2, policy=policy))[0],
    )


def efficient_run(config, phase, steps=(2,)):
    """Writes a run on few labels whose last phase has checkpoints of these steps; returns what
    trained it.
    """
    chosen, seed = config.classifier, config.training.seed
    maps = load_feature_maps(
        chosen.encoder,
        chosen.endpoint,
        16,
        backbone=chosen.backbone,
        seed=seed,
        precision=config.numerics.precision,
    )
    classifier = build_classifier(
        config, phase, maps.map_shape(config.images.image_size), len(NAMES)
    )
    trainee = Classification(
        maps, classifier, phase, config, steps[-1], tf.distribute.get_strategy()
    )
    changed(classifier.variables if phase == FROZEN else [*maps.variables, *classifier.variables])
    changed(trainee.average.averages if trainee.average else [], by=0.2)
    folder = os.path.join(config.workdir, phase)
    for step in steps:
        Checkpoints(folder, trainee.checkpoint).save(step)
    # the search chose them
    write_file(f"{folder}/run.flags", to_flagfile(replace(config, batch_size=4)))
    phases = {phase: {"steps": steps[-1], "top1": 0.75}}
    found = {"identity": maps.identity.to_json(), "phases": phases}
    if config.labels.refit:
        os.renames(folder, os.path.join(config.workdir, REFIT, phase))
        found[REFIT] = {"num_train_labels": 40, "phases": {phase: {"steps": steps[-1]}}}
    write_run(config, "efficient", found)
    return trainee


def changed(variables, by=0.1):
    """As if they had been trained."""
    for i, variable in enumerate(variables):
        if variable.dtype.is_floating:
            variable.assign(variable * (1 + by * np.cos(i)) + 0.01)


def write_run(config, task, found):
    """Writes the settings of a run and, unless `found` is None, its result: RESULT with what was
    found.
    """
    write_file(f"{config.workdir}/run.flags", to_flagfile(config))
    write_file(f"{config.workdir}/run.json", json.dumps({"task": task}))
    if found is not None:
        write_file(f"{config.workdir}/result.json", json.dumps({"kind": task, **RESULT, **found}))
