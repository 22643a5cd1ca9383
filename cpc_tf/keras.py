"""The one place that decides which Keras this is: Keras 2, as `hub.KerasLayer` needs it.

TensorFlow <= 2.15 has it as tf.keras. From 2.16 on tf.keras is Keras 3, and Keras 2 lives in the package tf_keras:
tensorflow_hub decides in the same way. Everything imports `from cpc_tf.keras import keras`.
"""

import tensorflow as tf


def _keras_2():
    version = getattr(tf.keras, "version", None)
    if version is None or version().startswith("2."):
        return tf.keras
    import tf_keras

    return tf_keras


keras = _keras_2()
