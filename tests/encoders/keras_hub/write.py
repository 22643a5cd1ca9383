"""Writes small presets with random weights, and what KerasHub computes of images: `python write.py
DIRECTORY`.

`reference.npz` holds images uint8 [N, 28, 28, 3] and NAME: features float32 [N, D], the mean of an
image and its mirror image.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import keras_hub
import numpy as np

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, [3, 28, 28, 3]).astype(np.uint8)
SIDE = (28, 28)
models, layers = keras_hub.models, keras_hub.layers


def dinov2():
    """A class token, and position embeddings that are interpolated for images of this size."""
    network = models.DINOV2Backbone(
        patch_size=14,
        num_layers=1,
        hidden_dim=8,
        num_heads=2,
        intermediate_dim=16,
        num_register_tokens=2,
        image_shape=(56, 56, 3),
        position_embedding_shape=(56, 56),
    )
    pixels = {"scale": [0.017, 0.018, 0.019], "offset": [-2.1, -2.0, -1.8]}
    return network, layers.DINOV2ImageConverter(image_size=SIDE, **pixels)


def siglip():
    """Images and text; a pooling that is trained."""
    sizes = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "intermediate_dim": 16}
    images = models.SigLIPVisionEncoder(patch_size=14, image_shape=(*SIDE, 3), **sizes)
    text = models.SigLIPTextEncoder(vocabulary_size=9, embedding_dim=8, **sizes)
    pixels = {"scale": 1 / 127.5, "offset": -1.0}
    return (
        models.SigLIPBackbone(images, text),
        layers.SigLIPImageConverter(image_size=SIDE, **pixels),
    )


def resnet():
    """Convolutions: maps of images of any size."""
    network = models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64],
        stackwise_num_blocks=[1],
        stackwise_num_strides=[1],
        block_type="basic_block",
    )
    return network, layers.ResNetImageConverter(image_size=SIDE, scale=1 / 255)


def features(name, path):
    """What the saved preset makes of the images, by KerasHub alone."""
    shape = {"image_shape": (*SIDE, 3)} if name == "dinov2" else {}
    network = models.Backbone.from_preset(path, **shape)
    pixels = layers.ImageConverter.from_preset(path)
    both = []
    for images in (IMAGES, IMAGES[:, :, ::-1]):
        seen = pixels(images)
        if name == "dinov2":
            output = network({"images": seen})[:, 0]
        elif name == "siglip":
            output = network.get_vision_embeddings(seen)
        else:
            output = keras.ops.mean(network(seen), (1, 2))
        both.append(np.asarray(output))
    return np.mean(both, 0)


def main(folder):
    computed = {}
    for make in (dinov2, siglip, resnet):
        network, converter = make()
        for variable in network.variables:  # new ones are often 0 or 1, which would hide mistakes
            noise = RANDOM.uniform(0.0, 0.2, variable.shape)
            if "seed" not in variable.path:
                variable.assign(np.asarray(variable) + noise)
        path = f"{folder}/{make.__name__}"
        network.save_to_preset(path)
        converter.save_to_preset(path)
        computed[make.__name__] = features(make.__name__, path)
    resnet()[0].save_to_preset(f"{folder}/no_converter")
    np.savez(f"{folder}/reference.npz", images=IMAGES, **computed)


if __name__ == "__main__":
    main(sys.argv[1])
