"""Checks an exported module as others will use it: with TensorFlow and tensorflow_hub alone.

    python check_module.py encoder|detector MODULE REFERENCE.npz

A script of its own, run by path in a fresh process: `cpc_tf` cannot be imported here, so that nothing it registers
(custom gradients, layers) can help. Prints a JSON summary, or ends with status 1 and a line on stderr.
"""

import json
import logging
import sys
import traceback

OURS = "cpc_tf"
TOLERANCE = 1e-5  # of features, relative to the largest of them
GRADIENT_TOLERANCE = 1e-3  # of a gradient's norm
SCORE_TOLERANCE = 1e-4  # of a detection's score
BOX_TOLERANCE = 0.01  # of its box, in pixels per 100
SAME = 0.9  # part of the detections that must be the same: rounding decides what suppresses what


class NotTheSame(Exception):
    """The module does something else than the checkpoint."""


class Blocker:
    """Refuses to import the project."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == OURS:
            raise ImportError(f"{name} is unavailable here")


class Listener(logging.Handler):
    """Keeps the warnings that report that the module cannot be trained."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.warnings = []

    def emit(self, record):
        message = record.getMessage()
        if "trainable" in message or "gradient" in message:
            self.warnings.append(message.splitlines()[0])


def distance(what, got, wanted):
    """The largest difference, relative to the largest wanted value; raises NotTheSame if it is too large."""
    if tuple(got.shape) != wanted.shape:
        raise NotTheSame(f"{what} has shape {tuple(got.shape)}, not {wanted.shape}")
    if not wanted.size:
        return 0.0
    if not np.all(np.isfinite(wanted)):
        raise NotTheSame(f"{what} is not finite in the checkpoint")
    difference = float(np.abs(got - wanted).max() / max(np.abs(wanted).max(), 1e-30))
    if not difference <= TOLERANCE:
        raise NotTheSame(f"{what} differs from the checkpoint's by {difference:.1e} of its scale")
    return difference


def in_model(layer):
    """The layer inside a Keras model of images of any size."""
    inputs = keras.Input([None, None, 3])
    return keras.Model(inputs, layer(inputs))


def check_values(layer, reference):
    """All outputs, for each size of images and for no image at all; returns the largest difference."""
    loaded = layer.resolved_object
    model = in_model(layer)
    endpoints = in_model(hub.KerasLayer(loaded, arguments={"return_endpoints": True}))
    patched = in_model(hub.KerasLayer(loaded.patched))
    worst = 0.0
    for case in sorted({name.split("/")[0] for name in reference if name.startswith("whole")}):
        images = reference[f"{case}/images"]
        wanted = {name.split("/")[1]: reference[name] for name in reference if name.startswith(case + "/")}
        del wanted["images"]
        size = "x".join(map(str, images.shape))
        served = loaded.signatures["serving_default"](images=tf.constant(images))["features"]
        got = endpoints(images)
        worst = max(
            [worst]
            + [distance(f"the output for {size}", model(images), wanted["features"])]
            + [distance(f"the signature's output for {size}", served, wanted["features"])]
            + [distance(f"endpoint {name} for {size}", got[name], wanted[name]) for name in wanted]
        )
        distance("the output for no image", model(images[:0]), wanted["features"][:0])
    images, latents = reference["patched/images"], reference["patched/latents"]
    distance("the patched output for no image", patched(images[:0]), latents[:0])
    return max(worst, distance("the patched output", patched(images), latents))


def check_training(layer, reference):
    """Gradients of all variables, and a step along them; returns the number of variables."""
    images, projection, norms = (reference[f"gradient/{name}"] for name in ("images", "projection", "norms"))
    layer.trainable = True
    model = in_model(layer)
    before = model(images).numpy()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(images, training=True) * projection)
    variables = model.trainable_variables
    gradients = tape.gradient(loss, variables)
    if len(variables) != len(norms):
        raise NotTheSame(f"{len(variables)} variables can be trained, not {len(norms)}")
    for variable, gradient, wanted in zip(variables, gradients, norms):
        norm = float("nan") if gradient is None else float(tf.norm(gradient))
        if not (np.isfinite(norm) and norm > 0):
            raise NotTheSame(f"the gradient of {variable.name} is {norm}")
        if abs(norm - wanted) > GRADIENT_TOLERANCE * wanted:
            raise NotTheSame(f"the gradient of {variable.name} has norm {norm:.4g}, not {wanted:.4g}")
    keras.optimizers.SGD(0.01 / float(tf.linalg.global_norm(gradients))).apply_gradients(zip(gradients, variables))
    after = model(images).numpy()
    if not np.all(np.isfinite(after)) or np.array_equal(before, after):
        raise NotTheSame("a step of gradient descent does not change the output as it should")
    return len(variables)


def check_encoder(module, reference):
    """What it computes, and that it can be trained."""
    listener = Listener()
    for name in ("absl", "tensorflow"):
        logging.getLogger(name).addHandler(listener)
    layer = hub.KerasLayer(module)
    difference = check_values(layer, reference)
    variables = check_training(layer, reference)
    if listener.warnings:
        raise NotTheSame(f"tensorflow_hub warns: {listener.warnings[0]}")
    return {"difference": difference, "variables": variables}


def same_detections(got, wanted, size):
    """How many of the wanted detections of an image have a counterpart."""
    near = np.abs(got["boxes"][None] - wanted["boxes"][:, None]).max(2) <= BOX_TOLERANCE * size / 100
    near &= np.abs(got["scores"][None] - wanted["scores"][:, None]) <= SCORE_TOLERANCE
    near &= got["labels"][None] == wanted["labels"][:, None]
    return int(near.any(1).sum())


def check_detector(module, reference):
    """Detections of any score on images of each size, the call's threshold, the signature, no image at all."""
    loaded = hub.load(module)
    names = [name.decode() for name in loaded.class_names().numpy()]
    if names != reference["class_names"].tolist():
        raise NotTheSame(f"the classes are {', '.join(names)}")
    total = same = 0
    for case in sorted({name.split("/")[0] for name in reference if name.startswith("case")}):
        images = tf.constant(reference[f"{case}/images"])
        wanted = {name: reference[f"{case}/{name}"] for name in ("boxes", "scores", "labels", "count")}
        got = {name: x.numpy() for name, x in loaded.detect(images, 0.0).items()}
        for name, values in wanted.items():
            if got[name].shape != values.shape or not np.all(np.isfinite(values)):
                raise NotTheSame(f"{name} has shape {got[name].shape}, not {values.shape}, or is not finite")
        for i, count in enumerate(wanted["count"]):
            one = {name: x[i, : got["count"][i]] for name, x in got.items() if name != "count"}
            if [name.decode() for name in one["names"]] != [names[label] for label in one["labels"]]:
                raise NotTheSame("the names are not those of the labels")
            same += same_detections(
                one, {n: x[i, :count] for n, x in wanted.items() if n != "count"}, max(images.shape)
            )
            total += int(count)
        called, served = loaded(images), loaded.signatures["serving_default"](images=images)
        if not all(np.array_equal(called[name], served[name]) for name in got):
            raise NotTheSame("the signature does something else than the call")
        # The best are never suppressed by worse ones, so a threshold only cuts off.
        if not np.array_equal(called["count"], (got["scores"] > reference["least_score"]).sum(1)):
            raise NotTheSame("the call has another threshold")
        if any(x.shape != [0, *called[name].shape[1:]] for name, x in loaded(images[:0]).items()):
            raise NotTheSame("the output for no image has the wrong shape")
    if not total or same < SAME * total:
        raise NotTheSame(f"{same} of {total} detections are the checkpoint's")
    return {"detections": total, "same": same / total}


def main(kind, module, reference_path):
    check = {"encoder": check_encoder, "detector": check_detector}[kind]
    print(json.dumps(check(module, dict(np.load(reference_path)))))


if __name__ == "__main__":
    sys.path.pop(0)  # this file's directory
    sys.meta_path.insert(0, Blocker())

    import numpy as np
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    try:
        main(*sys.argv[1:])
    except NotTheSame as error:
        sys.exit(str(error))
    except Exception as error:  # a module that cannot even be loaded or called
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split())[:300])
