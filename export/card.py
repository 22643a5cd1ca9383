"""The module's card: README.md inside the exported directory. It says what is known, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from string import Template
from typing import Any

from cpc_tf.data.config import GeometryConfig


@dataclasses.dataclass(frozen=True)
class History:
    """What only a card of one kind of run can say.

    Attributes:
      title: of the card.
      summary: how it learned; sentences.
      seen: how images were shown to it, in terms of the geometry; sentences.
      rows: (name, value) of the table on its training.
      figures: what the run measured: a table, or a sentence if there is nothing.
      pictures: the data sets that it learned from.
    """

    title: str
    summary: str
    seen: str
    rows: Sequence[tuple[str, str]]
    figures: str
    pictures: Sequence[str]


TEMPLATE = Template("""\
# $title

Turns pictures into feature vectors that a small classifier can be trained on. $summary

A TensorFlow 2 SavedModel with TF-Hub's image interface; it needs TensorFlow and tensorflow_hub, and nothing of cpc_tf.

## Inputs and outputs

| call | gives |
|---|---|
| `module(images)` | features `[N, $feature_dim]` of whole images |
| `module(images, return_endpoints=True)` | a dictionary: see below |
| `module.patched(images)` | latents `[N, R, C, $feature_dim]`: each patch of the grid on its own |
| `module.patched(images, return_endpoints=True)` | the same dictionary, with `[N, R, C]` in front |

The dictionary has the feature map of each stack of blocks (`stack1`, `stack2`, ...), the last one normalized
(`feature_map`, `[N, h, w, $feature_dim]`) and its mean (`features`).

`images`: float32 `[N, height, width, 3]`, RGB in [0, 1], any height and width. All calls take `training` (True lets
batch norm, if there is any, use and update the statistics of the batch). It computes in float32. Signatures:
`serving_default` (`features`, `feature_map`) and `patched` (`latents`).

## Geometry

$seen

| | px |
|---|---|
| images are resized to | $resize x $resize |
| and cropped to | $image_size x $image_size |
| patch | $patch_size x $patch_size |
| distance of neighbouring patches | $patch_stride |

At $image_size x $image_size the grid has $grid x $grid patches. Other sizes give other grids; `patched` does not see
what is left over below and on the right, and refuses images smaller than a patch.

## Training

$training

$figures

## Use

```python
import tensorflow as tf
import tensorflow_hub as hub

MODULE = "path/to/this/directory"
images = tf.random.uniform([4, $image_size, $image_size, 3])  # yours: RGB, float32 in [0, 1]
labels = tf.constant([0, 1, 0, 1])  # yours

# A classifier on the frozen encoder.
model = tf.keras.Sequential([hub.KerasLayer(MODULE), tf.keras.layers.Dense(2)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, verbose=0)

# The same, fine-tuned. With layer norm a small learning rate and a warm-up help.
model = tf.keras.Sequential([hub.KerasLayer(MODULE, trainable=True), tf.keras.layers.Dense(2)])
model.compile(tf.keras.optimizers.Adam(1e-4), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(images, labels, verbose=0)

# Latents of the patches: how the paper's linear classifier sees an image.
patched = hub.KerasLayer(hub.load(MODULE).patched)  # trainable=True works here, too
latents = patched(images)  # [4, $grid, $grid, $feature_dim]

# Feature maps, for example for detection.
endpoints = hub.KerasLayer(MODULE, arguments={"return_endpoints": True})(images)
feature_map = endpoints["feature_map"]  # [4, height, width, $feature_dim]
```

From TensorFlow 2.16 on, `hub.KerasLayer` is a layer of Keras 2: use `tf_keras` in place of `tf.keras`.

## Licence and citation

The terms of the pictures it learned from ($pictures) may extend to these weights; the code that made them comes with
cpc_tf's LICENSE.

```bibtex
@inproceedings{henaff2020data,
  title     = {Data-Efficient Image Recognition with Contrastive Predictive Coding},
  author    = {H{\\'e}naff, Olivier J. and Srinivas, Aravind and De Fauw, Jeffrey and Razavi, Ali and Doersch, Carl and
               Eslami, S. M. Ali and van den Oord, A{\\"a}ron},
  booktitle = {International Conference on Machine Learning},
  year      = {2020}
}
```
""")


def render(description: dict[str, Any], history: History) -> str:
    """The card's text.

    Args:
      description: the content of encoder.json.
      history: of the run that it comes from.
    """
    encoder, geometry = description["encoder"], GeometryConfig(**description["geometry"])
    stack = f", output of stack {encoder['output_stack']}" if encoder["output_stack"] else ""
    architecture = (
        f"`{encoder['encoder']}`, {description['parameters']:,} parameters, norm `{encoder['norm']}`, blocks "
        f"`{encoder['block_order']}`{stack}"
    )
    software = ", ".join(f"{name} {version}" for name, version in description["versions"].items())
    return TEMPLATE.substitute(
        {
            **description,
            **description["geometry"],
            "grid": geometry.grid,
            "title": history.title,
            "summary": history.summary,
            "seen": history.seen,
            "training": table([("encoder", architecture), *history.rows, ("software", software)]),
            "figures": history.figures,
            "pictures": ", ".join(f"`{dataset}`" for dataset in history.pictures),
        }
    )


def table(rows: Sequence[tuple[str, str]], head: str = "") -> str:
    """A table of names and values; `head` stands above the names."""
    lines = [f"| {head} | |" if head else "| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
    return "\n".join(lines)


def measured_at(place: str, measured: int, exported: int) -> str:
    """The head of a table of figures, which may have been measured at another step than the exported one."""
    other = "" if measured == exported else ", which is not the exported step"
    return f"measured {place}, step {measured}{other}"
