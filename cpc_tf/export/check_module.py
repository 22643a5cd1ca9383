"""Checks an exported module as others will use it: with TensorFlow and tensorflow_hub alone.

    python check_module.py encoder|classifier|detector MODULE REFERENCE.npz

A script of its own, run by path in a fresh process: `cpc_tf` cannot be imported here, so that nothing it registers
(custom gradients, layers) can help. Prints a JSON summary, or ends with status 1 and a line on stderr.
"""

import json
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


def cases(reference, prefix):
    """Groups the reference by cases: {'case0': {'images': ..., 'scores': ...}, ...} for those that begin so."""
    found = {}
    for key, value in reference.items():
        case, _, name = key.partition("/")
        if case.startswith(prefix):
            found.setdefault(case, {})[name] = value
    return found


def distance(what, got, wanted):
    """Returns the largest difference, relative to the largest wanted value. Raises NotTheSame if it is too large."""
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


def check_encoder(module, reference):
    """Checks what it computes, and that it can be trained."""
    layer = hub.KerasLayer(module)
    difference = check_values(layer, reference)
    return {"difference": difference, "variables": check_training(layer, reference)}


def check_values(layer, reference):
    """Checks all outputs, for each size of images and for no image; returns the largest difference."""
    loaded = layer.resolved_object
    model = in_model(layer)
    endpoints = in_model(hub.KerasLayer(loaded, arguments={"return_endpoints": True}))
    patched = in_model(hub.KerasLayer(loaded.patched))
    differences = []
    for wanted in cases(reference, "whole").values():
        images = wanted.pop("images")
        size = "x".join(map(str, images.shape))
        served = loaded.signatures["serving_default"](images=tf.constant(images))["features"]
        got = endpoints(images)
        differences += [
            distance(f"the output for {size}", model(images), wanted["features"]),
            distance(f"the signature's output for {size}", served, wanted["features"]),
            *(distance(f"endpoint {name} for {size}", got[name], wanted[name]) for name in wanted),
        ]
        distance("the output for no image", model(images[:0]), wanted["features"][:0])
    images, latents = reference["patched/images"], reference["patched/latents"]
    distance("the patched output for no image", patched(images[:0]), latents[:0])
    return max(*differences, distance("the patched output", patched(images), latents))


def check_training(layer, reference):
    """Checks gradients of all variables, and a step along them; returns the number of variables."""
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
        if not norm > 0 or not abs(norm - wanted) <= GRADIENT_TOLERANCE * wanted:
            raise NotTheSame(f"the gradient of {variable.name} has norm {norm:.4g}, not {wanted:.4g}")
    keras.optimizers.SGD(0.01 / float(tf.linalg.global_norm(gradients))).apply_gradients(zip(gradients, variables))
    after = model(images).numpy()
    if not np.all(np.isfinite(after)) or np.array_equal(before, after):
        raise NotTheSame("a step of gradient descent does not change the output as it should")
    return len(variables)


def check_classifier(module, reference):
    """Checks logits, probabilities and names on images of each size, on files, on none, and as a frozen layer."""
    loaded = hub.load(module)
    names = reference["class_names"].tolist()
    if [name.decode() for name in loaded.class_names().numpy()] != names:
        raise NotTheSame("the classes are others")

    def check(what, found, wanted):
        labels = wanted.argmax(1)
        # Of the module's own logits, which may be rounded in another way: a temperature below 1 would enlarge that.
        scaled = found["logits"].numpy().astype(np.float64) / reference["temperature"]
        odds = np.exp(scaled - scaled.max(1, keepdims=True))
        shares = 1 / (1 + np.exp(-scaled)) if reference["several_labels"] else odds / odds.sum(1, keepdims=True)
        if found["label"].numpy().tolist() != labels.tolist():
            raise NotTheSame(f"the labels for {what} are others")
        if [name.decode() for name in found["name"].numpy()] != [names[label] for label in labels]:
            raise NotTheSame(f"the names for {what} are not those of the labels")
        logits = distance(f"the logits for {what}", found["logits"], wanted)
        return max(logits, distance(f"the probabilities for {what}", found["probabilities"], shares))

    differences, inputs = [], keras.Input([None, None, 3], dtype=tf.uint8)
    layer = keras.Model(inputs, hub.KerasLayer(loaded)(inputs))
    for wanted in cases(reference, "case").values():
        images, size = wanted["images"], "x".join(map(str, wanted["images"].shape))
        served = loaded.signatures["serving_default"](images=tf.constant(images))
        in_steps = loaded.classify(loaded.prepared(images))
        for found in (loaded(images), served, in_steps, layer(images)):
            differences.append(check(size, found, wanted["logits"]))
        check("no image", loaded(images[:0]), wanted["logits"][:0])
    serve = loaded.signatures["bytes"]
    for wanted in cases(reference, "file").values():
        found = serve(encoded=tf.constant([wanted["bytes"].tobytes()]))
        differences.append(check("a file", found, wanted["logits"]))
    check("no file", serve(encoded=tf.zeros([0], tf.string)), wanted["logits"][:0])
    return {"difference": max(differences)}


def check_detector(module, reference):
    """Checks detections of any score on images of each size, the threshold, the signature and no image at all."""
    loaded = hub.load(module)
    names = [name.decode() for name in loaded.class_names().numpy()]
    if names != reference["class_names"].tolist():
        raise NotTheSame(f"the classes are {', '.join(names)}")
    total = same = 0
    for wanted in cases(reference, "case").values():
        images = tf.constant(wanted.pop("images"))
        got = {name: x.numpy() for name, x in loaded.detect(images, 0.0).items()}
        for name, values in wanted.items():
            if got[name].shape != values.shape or not np.all(np.isfinite(values)):
                raise NotTheSame(f"{name} has shape {got[name].shape}, not {values.shape}, or is not finite")
        for i, count in enumerate(wanted["count"]):
            found = {name: x[i, : got["count"][i]] for name, x in got.items() if name != "count"}
            if [name.decode() for name in found["names"]] != [names[label] for label in found["labels"]]:
                raise NotTheSame("the names are not those of the labels")
            boxes, scores, labels = (wanted[name][i, :count, None] for name in ("boxes", "scores", "labels"))
            near = np.abs(found["boxes"] - boxes).max(2) <= BOX_TOLERANCE * max(images.shape) / 100  # [wanted, found]
            near &= (np.abs(found["scores"] - scores) <= SCORE_TOLERANCE) & (found["labels"] == labels)
            same += int(near.any(1).sum())
            total += int(count)
        called, served = loaded(images), loaded.signatures["serving_default"](images=images)
        for name in ("boxes", "scores"):  # TensorFlow may round in another way in another graph
            distance(f"{name} of the signature", served[name].numpy(), called[name].numpy())
        if not all(np.array_equal(called[name], served[name]) for name in ("labels", "names", "count")):
            raise NotTheSame("the signature does something else than the call")
        # The best are never suppressed by worse ones, so a threshold only cuts off.
        if not np.array_equal(called["count"], (got["scores"] > reference["least_score"]).sum(1)):
            raise NotTheSame("the call has another threshold")
        if any(x.shape != [0, *called[name].shape[1:]] for name, x in loaded(images[:0]).items()):
            raise NotTheSame("the output for no image has the wrong shape")
    if not total or same < SAME * total:
        raise NotTheSame(f"{same} of {total} detections are the checkpoint's")
    return {"detections": total, "same": same / total}


if __name__ == "__main__":
    sys.path.pop(0)  # this file's directory
    sys.meta_path.insert(0, Blocker())

    import numpy as np
    import tensorflow as tf
    import tensorflow_hub as hub
    from tensorflow_hub.keras_layer import keras

    try:
        kind, path, reference_path = sys.argv[1:]
        check = {"encoder": check_encoder, "classifier": check_classifier, "detector": check_detector}[kind]
        print(json.dumps(check(path, dict(np.load(reference_path)))))
    except NotTheSame as error:
        sys.exit(str(error))
    except Exception as error:  # a module that cannot even be loaded or called
        traceback.print_exc()
        sys.exit(f"{type(error).__name__}: " + " ".join(str(error).split())[:300])
