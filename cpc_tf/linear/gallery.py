"""Test images and a gallery of training images with their latents, for the picture of nearest neighbours."""

from __future__ import annotations

import math

import numpy as np

from cpc_tf.data import catalog
from cpc_tf.data.pipeline import pipeline
from cpc_tf.data.pipeline.fetch import fetching
from cpc_tf.data.sources.source import Source
from cpc_tf.encoders.load import load_patch_encoder
from cpc_tf.evaluation.features import Features, encode_dataset
from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.picture import Neighbours
from cpc_tf.linear.probe import geometry_of

TRAINING_IMAGES, TEST_IMAGES = 1000, 200


def neighbours(config: LinearConfig, data: catalog.Pair) -> Neighbours:
    """Evenly spaced images of both splits, with their latents by `config.probe.encoder`."""
    geometry = geometry_of(config)
    encode = load_patch_encoder(config.probe.encoder, config.training.seed, geometry.patch_size).patch_latents

    def part(source: Source, most: int) -> tuple[np.ndarray, Features]:
        every = max(1, source.num_examples // most)
        images = pipeline.plain_images(source, geometry, 256, every=every)
        patches = pipeline.plain_patches(source, geometry, 64, every=every)
        count = math.ceil(source.num_examples / every)
        with fetching(source):
            pixels = np.concatenate([batch["image"] for batch in images.as_numpy_iterator()])
            return pixels, encode_dataset(patches, encode, count)

    return Neighbours(*part(data.test_source, TEST_IMAGES), *part(data.source, TRAINING_IMAGES))
