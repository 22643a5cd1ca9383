"""A run of `cpc-tf classify` -> its logistic regression and the encoder below it, as one module."""

from __future__ import annotations

import io
import os

import numpy as np
import tensorflow as tf

from cpc_tf.classify.config import ClassifyConfig
from cpc_tf.encoders.side_by_side import open_encoder
from cpc_tf.export.classifier import (
    Classifying,
    classifier_export,
    measured,
    refuse_another,
)
from cpc_tf.export.shared import Export, missing_module_named, result_of_ended

TESTED_ON = (
    "the images that it learned from, each by classifiers that had not seen it (cross-validation)"
)


def export_classify(run: ClassifyConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the logistic regression of `cpc-tf classify`. Without checkpoints, `step` and
    `weights` are not used.
    """
    result = result_of_ended(workdir, "classify")
    with missing_module_named(workdir):
        # Of several encoders the run chose.
        encoder = open_encoder(result["encoder"], run.seed, run.image_size, run.endpoint)
    refuse_another(encoder.identity, result["encoder"], result, workdir)
    with tf.io.gfile.GFile(os.path.join(workdir, "logistic.npz"), "rb") as file:
        learned = np.load(io.BytesIO(file.read()), allow_pickle=False)
        weights_, bias = (
            tf.Variable(learned[name], trainable=False, name=name) for name in ("weights", "bias")
        )
    model = Classifying(
        logits=lambda images: encoder.encode(images) @ weights_ + bias,
        held=[*encoder.held, weights_, bias],
        geometry=encoder.geometry,
        class_names=result["class_names"],
        **measured(result, run),
    )
    return classifier_export(model, result, run, workdir, tested_on=TESTED_ON)
