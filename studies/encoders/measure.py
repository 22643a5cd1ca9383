"""What a few labels are worth on an encoder's features of a set of images.

    python -m studies.encoders.measure --pictures=FOLDER --encoder=imagenette_128px \
      --output=result.json

FOLDER has a folder of images for each class. Each draw labels some images of every class at random,
the same ones whatever the encoder. The classifier is that of `cpc-tf classify` at its usual
strength; it is tested on all images that were not drawn.
"""

from __future__ import annotations

import json

import numpy as np
from absl import app, flags

from cpc_tf.classify import logistic
from cpc_tf.classify.logistic import LabelledFeatures
from cpc_tf.core.files import write_file
from cpc_tf.evaluation.scores import guesses
from cpc_tf.use.embed import embed
from cpc_tf.use.embed_config import EmbedConfig

NUMBERS = (5, 12, 50)  # labels per class
DRAWS = 5


def encoded(pictures: str, encoders: list[str]) -> LabelledFeatures:
    """Returns the images of a folder by some encoders, side by side as in `cpc-tf classify`."""
    of_each = []
    for encoder in encoders:
        embedded = embed(EmbedConfig(pictures=pictures, encoder=encoder))
        folders = [name.partition("/")[0] for name in embedded.names]
        names, labels = np.unique(folders, return_inverse=True)
        groups = np.arange(len(labels))
        of_each.append(LabelledFeatures(embedded.features, labels, groups, len(names)))
    return of_each[0] if len(of_each) == 1 else logistic.side_by_side(of_each)


def accuracy(examples: LabelledFeatures, each: int, seed: int) -> float:
    """Returns the mean over the classes of how many of the other images are right, from `each`
    labels per class.
    """
    labels = examples.labels
    random = np.random.default_rng([seed, each])
    classes = examples.classes
    chosen = np.concatenate(
        [
            random.choice(np.flatnonzero(labels == number), each, replace=False)
            for number in range(classes)
        ]
    )
    classifier = logistic.fit(examples.take(chosen), logistic.USUAL)
    others = np.setdiff1d(np.arange(len(labels)), chosen)
    right = guesses(classifier.logits(examples.features[others])) == labels[others]
    return float(np.mean([right[labels[others] == number].mean() for number in range(classes)]))


def main(_) -> None:
    """Measures all draws and writes them as JSON."""
    values = flags.FLAGS
    encoders = [values.encoder, values.beside] if values.beside else [values.encoder]
    examples = encoded(values.pictures, encoders)
    rows = []
    for each in NUMBERS:
        draws = [round(accuracy(examples, each, seed), 4) for seed in range(values.draws)]
        rows.append({"each": each, "accuracy": draws})
    count, width = examples.features.shape
    result = {"images": count, "features": width, "rows": rows}
    write_file(values.output, json.dumps(result) + "\n")


if __name__ == "__main__":
    flags.DEFINE_string("pictures", None, "folder of a folder for each class", required=True)
    flags.DEFINE_string("encoder", None, "as in `cpc-tf embed`", required=True)
    flags.DEFINE_string("beside", "", "a second encoder, whose features stand beside the first's")
    flags.DEFINE_integer("draws", DRAWS, "draws of labels for each number")
    flags.DEFINE_string("output", None, "JSON file to write", required=True)
    app.run(main)
