"""Computes what an exported module gives, as others will use it: by its own runtime alone.

    python check.py encoder|classifier|detector|tflite|onnx|keras3 DIRECTORY INPUTS.npz OUTPUTS.npz

A script of its own, run by path in a fresh process: `cpc_tf` cannot be imported here, so that nothing it registers
(custom gradients, layers) can help. What goes in and what comes out are arrays by the names that the functions below
describe; `verify.py` compares them. Ends with status 1 and a line on stderr if the module cannot be used.
"""

import glob
import sys
import traceback

import numpy as np

OURS = "cpc_tf"
MANY = 32  # images, of which feature maps could fill the memory


class Blocker:
    """Refuses to import the project."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == OURS:
            raise ImportError(f"{name} is unavailable here")


def named(case, outputs):
    """Outputs by name -> {'CASE/NAME': array}; texts are bytes of a fixed length, which need no pickle."""
    arrays = {f"{case}/{name}": np.asarray(x) for name, x in outputs.items()}
    return {key: x.astype("S") if x.dtype == object else x for key, x in arrays.items()}


def cases(given, prefix):
    return {name: value for name, value in given.items() if name.startswith(prefix)}


def in_model(layer):
    """The layer inside a Keras model of images of any size."""
    from tensorflow_hub.keras_layer import keras

    inputs = keras.Input([None, None, 3])
    return keras.Model(inputs, layer(inputs))


def encoder(path, given):
    """What an encoder computes, and what a step of training does to it.

    Images 'whole...' -> 'CASE/WAY/ENDPOINT'; 'patched' -> 'patched/WAY/latents'. 'gradient' and the 'projection' of its
    features, whose sum is the loss -> 'gradient/norms' (NaN: there is none) and 'gradient/variables', their names, and
    'step/before' and 'step/after', the features of the same images.
    """
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    layer = hub.KerasLayer(path)
    loaded = layer.resolved_object
    model = in_model(layer)
    endpoints = in_model(hub.KerasLayer(loaded, arguments={"return_endpoints": True}))
    patched = in_model(hub.KerasLayer(loaded.patched))
    found = {}
    for case, images in cases(given, "whole").items():
        served = loaded.signatures["serving_default"](images=tf.constant(images))
        found.update(named(f"{case}/endpoints", endpoints(images)))
        found.update(named(f"{case}/call", {"features": model(images)}))
        found.update(named(f"{case}/signature", {"features": served["features"]}))
        found.update(named(f"{case}/no image", {"features": model(images[:0])}))
    for way, images in (("call", given["patched"]), ("no image", given["patched"][:0])):
        found.update(named(f"patched/{way}", {"latents": patched(images)}))

    images, layer.trainable = given["gradient"], True
    model = in_model(layer)
    found["step/before"] = model(images).numpy()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images, training=True) * given["projection"])
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables)
    norms = [float("nan") if gradient is None else float(tf.norm(gradient)) for gradient in gradients]
    found.update({"gradient/norms": np.array(norms), "gradient/variables": np.array([v.name for v in variables])})
    if np.all(np.isfinite(norms)):
        step = keras.optimizers.SGD(0.01 / float(tf.linalg.global_norm(gradients)))
        step.apply_gradients(zip(gradients, variables))
    found["step/after"] = model(images).numpy()
    return found


def classifier(path, given):
    """What a classifier says: images 'case...' and bytes of files 'file...' -> 'CASE/WAY/OUTPUT'; 'names/classes'."""
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    loaded = hub.load(path)
    inputs = keras.Input([None, None, 3], dtype=tf.uint8)
    layer = keras.Model(inputs, hub.KerasLayer(loaded)(inputs))
    found = named("names", {"classes": loaded.class_names()})
    for case, images in cases(given, "case").items():
        found.update(named(f"{case}/call", loaded(images)))
        found.update(named(f"{case}/signature", loaded.signatures["serving_default"](images=tf.constant(images))))
        found.update(named(f"{case}/call in steps", loaded.classify(loaded.prepared(images))))
        found.update(named(f"{case}/layer", layer(images)))
        found.update(named(f"{case}/no image", loaded(images[:0])))
    serve = loaded.signatures["bytes"]
    for case, content in cases(given, "file").items():
        found.update(named(f"{case}/signature", serve(encoded=tf.constant([content.tobytes()]))))
        found.update(named(f"{case}/no image", serve(encoded=tf.zeros([0], tf.string))))
    return found


def detector(path, given):
    """What a detector finds: images 'case...' -> 'CASE/WAY/OUTPUT', at any score in the way 'any'; 'names/classes'."""
    import tensorflow as tf
    import tensorflow_hub as hub

    loaded = hub.load(path)
    found = named("names", {"classes": loaded.class_names()})
    for case, images in cases(given, "case").items():
        found.update(named(f"{case}/any", loaded.detect(tf.constant(images), 0.0)))
        found.update(named(f"{case}/call", loaded(tf.constant(images))))
        found.update(named(f"{case}/signature", loaded.signatures["serving_default"](images=tf.constant(images))))
        found.update(named(f"{case}/no image", loaded(tf.constant(images[:0]))))
    return found


def tflite(directory, given):
    """What the functions of a file give: 'FUNCTION/CASE', uint8 [N, H, W, 3] -> 'FUNCTION/CASE/OUTPUT'.

    The functions get them as they are, or as float32 in [0, 1], as 'dtype' says.
    """
    from tensorflow import lite

    (file,) = glob.glob(f"{directory}/*.tflite")
    interpreter = lite.Interpreter(file)

    def function(name):
        runner = interpreter.get_signature_runner(name)
        return lambda images: runner(images=images)

    return by_functions(function, given, batch=1)


def onnx(directory, given):
    """As `tflite`; each function is a file."""
    import onnxruntime

    def function(name):
        session = onnxruntime.InferenceSession(f"{directory}/{name}.onnx", providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return lambda images: dict(zip(names, session.run(names, {"images": images})))

    return by_functions(function, given)


def keras3(directory, given):
    """As `tflite`; the only function is the encoder's."""
    import keras

    model = keras.saving.load_model(f"{directory}/encoder.keras")
    endpoints = {name: model.get_layer(name).output for name in ("features", "feature_map")}
    return by_functions(lambda name: keras.Model(model.inputs, endpoints).predict_on_batch, given)


def by_functions(function, given, batch=MANY):
    dtype = str(given.pop("dtype"))
    return {
        key: values
        for case, images in given.items()
        for key, values in named(case, outputs_of(function(case.partition("/")[0]), images, dtype, batch)).items()
    }


def outputs_of(call, images, dtype, batch=MANY):
    """Calls a function with the images in batches: outputs by name, [N, ...]; of many images the vectors alone."""
    parts = []
    for start in range(0, len(images), batch):
        outputs = call(shown(images[start : start + batch], dtype))
        values = {name: np.asarray(x) for name, x in outputs.items()}
        parts.append({name: x for name, x in values.items() if len(images) <= MANY or x.ndim == 2})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def shown(images, dtype):
    """Images, uint8, as a function takes them: as they are or as float32 in [0, 1]."""
    return images if dtype == "uint8" else images.astype(np.float32) / 255


KINDS = {function.__name__: function for function in (encoder, classifier, detector, tflite, onnx, keras3)}

if __name__ == "__main__":
    sys.path.pop(0)  # this file's directory
    sys.meta_path.insert(0, Blocker())
    try:
        kind, directory, inputs, outputs = sys.argv[1:]
        np.savez(outputs, **KINDS[kind](directory, dict(np.load(inputs))))
    except Exception as error:  # a module that cannot even be loaded or called
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split())[:300])
