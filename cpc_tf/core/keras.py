"""Keras 2, as `hub.KerasLayer` needs it; everything imports it from here.

It is tf.keras up to TensorFlow 2.15 and the package tf_keras from 2.16 on; tensorflow_hub decides
in the same way.
"""

import tensorflow as tf


def _keras_2():
    version = getattr(tf.keras, "version", None)
    if version is None or version().startswith("2."):
        return tf.keras
    import tf_keras

    return tf_keras


keras = _keras_2()


def policy(precision: str) -> str:
    """Returns the dtype policy of 'float32', 'bfloat16' or 'float16'; parameters are float32 with
    each.
    """
    return precision if precision == "float32" else f"mixed_{precision}"
