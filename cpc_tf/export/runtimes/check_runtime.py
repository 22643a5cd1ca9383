"""Runs a converted module as others will: by its runtime alone.

    python check_runtime.py FORMAT uint8|float32 DIRECTORY IMAGES.npz OUTPUTS.npz

A script of its own, run by path in a fresh process: `cpc_tf` cannot be imported here. IMAGES.npz has 'FUNCTION/CASE',
uint8 [N, H, W, 3], which the functions get as they are or as float32 in [0, 1]. OUTPUTS.npz gets what they give, as
'FUNCTION/CASE/OUTPUT'.
Ends with status 1 and a line on stderr if anything fails.
"""

import glob
import sys

import numpy as np

OURS = "cpc_tf"
MANY = 32  # images, of which feature maps could fill the memory


class Blocker:
    """Refuses to import the project."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == OURS:
            raise ImportError(f"{name} is unavailable here")


def of_tflite(directory):
    """The function's name -> what runs it: a batch of images -> outputs by name."""
    from tensorflow import lite

    (file,) = glob.glob(f"{directory}/*.tflite")
    interpreter = lite.Interpreter(file)

    def function(name):
        runner = interpreter.get_signature_runner(name)
        return lambda images: runner(images=images)

    return function


def of_onnx(directory):
    """As `of_tflite`."""
    import onnxruntime

    def function(name):
        session = onnxruntime.InferenceSession(f"{directory}/{name}.onnx", providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return lambda images: dict(zip(names, session.run(names, {"images": images})))

    return function


def of_keras3(directory):
    """As `of_tflite`; the only function is the encoder's."""
    import keras

    model = keras.saving.load_model(f"{directory}/encoder.keras")
    endpoints = {name: model.get_layer(name).output for name in ("features", "feature_map")}
    return lambda name: keras.Model(model.inputs, endpoints).predict_on_batch


def shown(images, dtype):
    """Images, uint8, as a function takes them: as they are or as float32 in [0, 1]."""
    return images if dtype == "uint8" else images.astype(np.float32) / 255


def outputs_of(call, images, dtype, batch=MANY):
    """Calls a function with the images in batches: outputs by name, [N, ...]; of many images the vectors alone."""
    parts = []
    for start in range(0, len(images), batch):
        outputs = call(shown(images[start : start + batch], dtype))
        values = {name: np.asarray(x) for name, x in outputs.items()}
        parts.append({name: x for name, x in values.items() if len(images) <= MANY or x.ndim == 2})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


if __name__ == "__main__":
    sys.path.pop(0)  # this file's directory
    sys.meta_path.insert(0, Blocker())

    try:
        form, dtype, directory, images_path, outputs_path = sys.argv[1:]
        function = {"tflite": of_tflite, "onnx": of_onnx, "keras3": of_keras3}[form](directory)
        found = {}
        for key, images in np.load(images_path).items():
            outputs = outputs_of(function(key.partition("/")[0]), images, dtype, batch=1 if form == "tflite" else MANY)
            found.update({f"{key}/{name}": values for name, values in outputs.items()})
        np.savez(outputs_path, **found)
    except Exception as error:
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split())[:300])
