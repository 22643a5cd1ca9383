"""Writes encoders as others would, with nothing of this project: `python write.py DIRECTORY`.

Each gets images in [-1, 1], but for `bytes` (uint8). `reference.npz` holds images uint8 [4, 16, 16,
3] and what each encoder's author computes of them: ENCODER/OUTPUT.
"""

import pathlib
import sys

import numpy as np
import tensorflow as tf
import tensorflow.compat.v1 as tf1

try:
    import tf_keras
except ImportError:  # before TensorFlow 2.16 it need not be there
    tf_keras = tf.keras

RANDOM = np.random.default_rng(0)
KERNEL = RANDOM.normal(size=[4, 4, 3, 6]).astype(np.float32)
MEAN, VARIANCE = np.linspace(-1, 1, 6, dtype=np.float32), np.linspace(1, 3, 6, dtype=np.float32)
IMAGES = RANDOM.integers(0, 256, [4, 16, 16, 3]).astype(np.uint8)
SIGNED = (IMAGES / 127.5 - 1).astype(np.float32)


def write_call(path):
    """A TF2 module as TF-Hub describes them: `__call__` with training or without, and lists of its
    variables.
    """
    kernel, mean = tf.Variable(KERNEL), tf.Variable(MEAN, trainable=False)
    variance = tf.Variable(VARIANCE, trainable=False)

    def call(images, training=False):
        maps = tf.nn.conv2d(images, kernel, 4, "VALID")
        by = tf.nn.moments(maps, [0, 1, 2]) if training else (mean, variance)
        if training:
            mean.assign(0.9 * mean + 0.1 * by[0])
            variance.assign(0.9 * variance + 0.1 * by[1])
        return (maps - by[0]) / tf.sqrt(by[1])

    module = tf.train.Checkpoint(variables=[kernel, mean, variance], trainable_variables=[kernel])
    module.__call__ = tf.function(call, autograph=False)
    for training in (False, True):
        module.__call__.get_concrete_function(
            tf.TensorSpec([None, None, None, 3]), training=training
        )
    tf.saved_model.save(module, path)
    return {"": call(SIGNED).numpy()}


def write_bytes(path):
    """Signatures alone, of uint8 images of 16 px and of something that is no image."""
    module = tf.Module()
    module.kernel = tf.Variable(KERNEL)

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 3], tf.uint8, name="pixels")])
    def embed(pixels):
        maps = tf.nn.conv2d(tf.cast(pixels, tf.float32) / 127.5 - 1, module.kernel, 4, "VALID")
        return {"map": maps, "vector": tf.reduce_mean(maps, [1, 2]), "count": tf.shape(maps)[:1]}

    @tf.function(input_signature=[tf.TensorSpec([None, 20], name="z")])
    def generate(z):
        return {"image": z}

    tf.saved_model.save(module, path, signatures={"embed": embed, "generate": generate})
    return {name: value.numpy() for name, value in embed(IMAGES).items() if name != "count"}


def write_served(path):
    """What converters from ONNX write: one signature, tokens beside a vector."""
    module = tf.Module()
    module.kernel = tf.Variable(KERNEL)

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 16, 3], name="images")])
    def serve(images):
        maps = tf.nn.conv2d(images, module.kernel, 4, "VALID")
        return {"tokens": tf.reshape(maps, [-1, 16, 6]), "vector": tf.reduce_mean(maps, [1, 2])}

    tf.saved_model.save(module, path, signatures=serve)
    return {"vector": serve(SIGNED)["vector"].numpy()}


def write_tf1(path):
    """TF1 format of TF-Hub, with the names of BigBiGAN: a graph to train and one to infer, which
    share variables.
    """
    builder = tf1.saved_model.Builder(path)

    def graph(training):
        images = tf1.placeholder(tf.float32, [None, 16, 16, 3])
        kernel = tf1.get_variable("kernel", initializer=KERNEL)
        mean = tf1.get_variable("mean", initializer=MEAN, trainable=False)
        variance = tf1.get_variable("variance", initializer=VARIANCE, trainable=False)
        maps = tf1.nn.conv2d(images, kernel, 4, "VALID")
        by = tf1.nn.moments(maps, [0, 1, 2]) if training else (mean, variance)
        normal = tf1.identity((maps - by[0]) / tf1.sqrt(by[1]), "normal")
        pooled = tf1.reduce_mean(tf1.nn.relu(normal), [1, 2])
        inside = tf1.nn.relu(tf1.concat([normal, -normal], 3), "concatenated")
        both = tf1.reduce_mean(inside, [1, 2])
        outputs = {
            "default": both[:, :2],
            "z_mean": both[:, :2],
            "avepool_feat": pooled,
            "bn_crelu_feat": both,
        }
        define = tf1.saved_model.predict_signature_def
        signatures = {
            "encode": define({"x": images}, outputs),
            "default": define({"x": images}, {"default": pooled}),
        }
        return images, {**outputs, "normal:0": normal, "concatenated:0": inside}, signatures

    for tags in (["train"], []):
        with tf1.Graph().as_default(), tf1.Session() as session:
            images, outputs, signatures = graph(bool(tags))
            session.run(tf1.global_variables_initializer())
            if tags:
                builder.add_meta_graph_and_variables(session, tags, signature_def_map=signatures)
            else:
                builder.add_meta_graph(tags, signature_def_map=signatures)
                found = session.run(outputs, {images: SIGNED})
    builder.save()
    pathlib.Path(path, "tfhub_module.pb").write_bytes(b"\x08\x03")  # format 3
    return found


def write_keras(path):
    """A model of Keras, exported as its documentation says, trained for a step, so its statistics
    are not the first.
    """
    tf_keras.utils.set_random_seed(0)
    layers = tf_keras.layers
    model = tf_keras.Sequential(
        [layers.Conv2D(6, 3, 2), layers.BatchNormalization(), layers.GlobalAveragePooling2D()]
    )
    model.compile("sgd", "mse", run_eagerly=True)
    model.train_on_batch(SIGNED, np.ones([4, 6]))
    model.export(path)
    return {"": model(SIGNED, training=False).numpy()}


if __name__ == "__main__":
    out, reference = pathlib.Path(sys.argv[1]), {"images": IMAGES}
    for name, write in {
        "call": write_call,
        "bytes": write_bytes,
        "served": write_served,
        "tf1": write_tf1,
        "keras": write_keras,
    }.items():
        found = write(str(out / name))
        reference.update({f"{name}/{output}": value for output, value in found.items()})
    np.savez(out / "reference.npz", **reference)
