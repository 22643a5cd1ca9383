"""A run of linear classification -> its classifier and the encoder below it, as one module."""

from __future__ import annotations

import tensorflow as tf

from cpc_tf import augment
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.encoders.network import patch_grid
from cpc_tf.export.classifier import (
    Classifying,
    classifier_export,
    measured,
    refuse_another,
)
from cpc_tf.export.shared import (
    Export,
    missing_module_named,
    read_checkpoint,
    restore,
    result_of_ended,
)
from cpc_tf.linear.classifier import LinearClassifier
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import augment_of, geometry_of


def export_linear(run: LinearConfig, workdir: str, step: int, weights: str) -> Export:
    """Returns the linear classifier of a run, which has no averages: `weights` is not used."""
    result = result_of_ended(workdir, "linear")
    with missing_module_named(workdir):
        geometry = geometry_of(run)
        policy = augment_of(run).policy
        encoder = load_patch_encoder(
            run.probe.encoder,
            run.training.seed,
            geometry.patch_size,
            signature=run.probe.signature,
            endpoint=run.probe.endpoint,
        )
    refuse_another(encoder.identity, encoder.text, result, workdir)
    patch = geometry.patch_size
    stride = geometry.patch_stride
    grid = geometry.grid

    def latents(images: tf.Tensor) -> tf.Tensor:
        patches = patch_grid(augment.at_test(images, policy), patch, stride)
        return encoder.patch_latents(tf.ensure_shape(patches, [None, grid, grid, patch, patch, 3]))

    side = geometry.image_size
    names = result["class_names"]
    traced = tf.function(latents, autograph=False).get_concrete_function(
        tf.TensorSpec([1, side, side, 3], tf.uint8)
    )
    classifier = LinearClassifier(len(names), run.probe.latent_norm)
    classifier.build([None, *traced.structured_outputs.shape[1:]])
    step = read_checkpoint(workdir, step, lambda path: restore(path, classifier=classifier))
    model = Classifying(
        logits=lambda images: classifier(latents(images)),
        held=[*encoder.held, *classifier.variables],
        geometry=geometry,
        class_names=names,
        **measured(result, run),
    )
    return classifier_export(
        model,
        result,
        run,
        workdir,
        tested_on=f"split `{run.probe.test_split}`",
        step=step,
        tested=result["steps"],
    )
