"""The ranges of pixels that encoders of others take. Ours take [0, 1], as TF-Hub's modules of images do."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

# Of ImageNet's training images, in the order red, green, blue: the constants of keras.applications.
_MEAN, _DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_CAFFE_MEAN = (103.939, 116.779, 123.68)  # blue, green, red; of pixels in [0, 255]

UNIT = "0..1"
# Name, which is written before a module as in --encoder=-1..1:MODULE -> images float32 [B, H, W, 3] in [0, 1] to what
# the module takes. 'torch' and 'caffe' are the modes of keras.applications.imagenet_utils.preprocess_input.
RANGES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    UNIT: lambda images: images,
    "-1..1": lambda images: 2.0 * images - 1.0,
    "0..255": lambda images: 255.0 * images,
    "torch": lambda images: (images - _MEAN) / _DEVIATION,
    "caffe": lambda images: 255.0 * images[..., ::-1] - _CAFFE_MEAN,
}
