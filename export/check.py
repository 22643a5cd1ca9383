"""Computes the outputs of an exported module as its users will: by its own runtime alone.

    python check.py encoder|classifier|detector|tflite|onnx|keras3 DIRECTORY INPUTS.npz OUTPUTS.npz

A script of its own, run by path in a fresh process: `cpc_tf` cannot be imported here, so that
nothing it registers (custom gradients, layers) can help. Inputs and outputs are arrays with the
names that the functions below describe; `verify.py` compares them. Ends with status 1 and a line on
stderr if the module cannot be used.
"""

import glob
import sys
import traceback

import numpy as np

OURS = "cpc_tf"
MANY = 32  # images; the feature maps of more could fill the memory


class Blocker:
    """Refuses to import the project."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == OURS:
            raise ImportError(f"{name} is unavailable here")


def named(case, outputs):
    """Outputs by name -> {'CASE/NAME': array}; texts are bytes of a fixed length, which need no
    pickle.
    """
    arrays = {f"{case}/{name}": np.asarray(x) for name, x in outputs.items()}
    return {key: x.astype("S") if x.dtype == object else x for key, x in arrays.items()}


def cases(inputs, prefix):
    return {name: value for name, value in inputs.items() if name.startswith(prefix)}


def in_model(layer):
    """The layer inside a Keras model of images of any size."""
    from tensorflow_hub.keras_layer import keras

    images = keras.Input([None, None, 3])
    return keras.Model(images, layer(images))


def encoder(path, inputs):
    """An encoder: its outputs, and a step of training.

    Images 'whole...' -> 'CASE/WAY/ENDPOINT'; 'patched' -> 'patched/WAY/latents'. 'gradient' and the
    'projection' of its features, whose sum is the loss -> 'gradient/norms' (NaN: there is none) and
    'gradient/variables', their names, and 'step/before' and 'step/after', the features of the same
    images.
    """
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    layer = hub.KerasLayer(path)
    loaded = layer.resolved_object
    model = in_model(layer)
    endpoints = in_model(hub.KerasLayer(loaded, arguments={"return_endpoints": True}))
    patched = in_model(hub.KerasLayer(loaded.patched))
    outputs = {}
    for case, images in cases(inputs, "whole").items():
        served = loaded.signatures["serving_default"](images=tf.constant(images))
        outputs.update(named(f"{case}/endpoints", endpoints(images)))
        outputs.update(named(f"{case}/call", {"features": model(images)}))
        outputs.update(named(f"{case}/signature", {"features": served["features"]}))
        outputs.update(named(f"{case}/no image", {"features": model(images[:0])}))
    for way, images in (("call", inputs["patched"]), ("no image", inputs["patched"][:0])):
        outputs.update(named(f"patched/{way}", {"latents": patched(images)}))

    images = inputs["gradient"]
    layer.trainable = True
    model = in_model(layer)
    outputs["step/before"] = model(images).numpy()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images, training=True) * inputs["projection"])
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables)
    norms = [
        float("nan") if gradient is None else float(tf.norm(gradient)) for gradient in gradients
    ]
    outputs.update(
        {
            "gradient/norms": np.array(norms),
            "gradient/variables": np.array([v.name for v in variables]),
        }
    )
    if np.all(np.isfinite(norms)):
        step = keras.optimizers.SGD(0.01 / float(tf.linalg.global_norm(gradients)))
        step.apply_gradients(zip(gradients, variables))
    outputs["step/after"] = model(images).numpy()
    return outputs


def classifier(path, inputs):
    """A classifier: images 'case...' and bytes of files 'file...' -> 'CASE/WAY/OUTPUT';
    'names/classes'.
    """
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    loaded = hub.load(path)
    images = keras.Input([None, None, 3], dtype=tf.uint8)
    layer = keras.Model(images, hub.KerasLayer(loaded)(images))
    outputs = named("names", {"classes": loaded.class_names()})
    for case, images in cases(inputs, "case").items():
        outputs.update(named(f"{case}/call", loaded(images)))
        outputs.update(
            named(
                f"{case}/signature",
                loaded.signatures["serving_default"](images=tf.constant(images)),
            )
        )
        outputs.update(named(f"{case}/call in steps", loaded.classify(loaded.prepared(images))))
        outputs.update(named(f"{case}/layer", layer(images)))
        outputs.update(named(f"{case}/no image", loaded(images[:0])))
    serve = loaded.signatures["bytes"]
    for case, content in cases(inputs, "file").items():
        outputs.update(named(f"{case}/signature", serve(encoded=tf.constant([content.tobytes()]))))
        outputs.update(named(f"{case}/no image", serve(encoded=tf.zeros([0], tf.string))))
    return outputs


def detector(path, inputs):
    """A detector: images 'case...' -> 'CASE/WAY/OUTPUT', at any score in the way 'any';
    'names/classes'.
    """
    import tensorflow as tf
    import tensorflow_hub as hub

    loaded = hub.load(path)
    outputs = named("names", {"classes": loaded.class_names()})
    for case, images in cases(inputs, "case").items():
        outputs.update(named(f"{case}/any", loaded.detect(tf.constant(images), 0.0)))
        outputs.update(named(f"{case}/call", loaded(tf.constant(images))))
        outputs.update(
            named(
                f"{case}/signature",
                loaded.signatures["serving_default"](images=tf.constant(images)),
            )
        )
        outputs.update(named(f"{case}/no image", loaded(tf.constant(images[:0]))))
    return outputs


def tflite(directory, inputs):
    """The functions of a file: 'FUNCTION/CASE', uint8 [N, H, W, 3] -> 'FUNCTION/CASE/OUTPUT'.

    The functions get them as they are, or as float32 in [0, 1], as 'dtype' says.
    """
    from tensorflow import lite

    (file,) = glob.glob(f"{directory}/*.tflite")
    interpreter = lite.Interpreter(file)

    def function(name):
        runner = interpreter.get_signature_runner(name)
        return lambda images: runner(images=images)

    return by_functions(function, inputs, batch=1)


def onnx(directory, inputs):
    """As `tflite`; each function is a file."""
    import onnxruntime

    def function(name):
        session = onnxruntime.InferenceSession(
            f"{directory}/{name}.onnx", providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        return lambda images: dict(zip(names, session.run(names, {"images": images})))

    return by_functions(function, inputs)


def keras3(directory, inputs):
    """As `tflite`; the only function is the encoder's."""
    import keras

    model = keras.saving.load_model(f"{directory}/encoder.keras")
    endpoints = {name: model.get_layer(name).output for name in ("features", "feature_map")}
    return by_functions(lambda name: keras.Model(model.inputs, endpoints).predict_on_batch, inputs)


def by_functions(function, inputs, batch=MANY):
    dtype = str(inputs.pop("dtype"))
    outputs = {}
    for case, images in inputs.items():
        values = outputs_of(function(case.partition("/")[0]), images, dtype, batch)
        outputs.update(named(case, values))
    return outputs


def outputs_of(call, images, dtype, batch=MANY):
    """Calls a function with the images in batches: outputs by name, [N, ...]; of many images the
    vectors alone.
    """
    parts = []
    for start in range(0, len(images), batch):
        outputs = call(as_dtype(images[start : start + batch], dtype))
        values = {name: np.asarray(x) for name, x in outputs.items()}
        parts.append({name: x for name, x in values.items() if len(images) <= MANY or x.ndim == 2})
    joined = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined


def as_dtype(images, dtype):
    """Images, uint8, as a function takes them: as they are or as float32 in [0, 1]."""
    return images if dtype == "uint8" else images.astype(np.float32) / 255


KINDS = {
    function.__name__: function
    for function in (encoder, classifier, detector, tflite, onnx, keras3)
}

if __name__ == "__main__":
    sys.path.pop(0)  # this file's directory
    sys.meta_path.insert(0, Blocker())
    try:
        kind, directory, inputs, outputs = sys.argv[1:]
        np.savez(outputs, **KINDS[kind](directory, dict(np.load(inputs))))
    except Exception as error:  # a module that cannot even be loaded or called
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split())[:300])
