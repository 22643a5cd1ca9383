"""The module's card: README.md inside the exported directory. It says what is known, and nothing else."""

from __future__ import annotations

from string import Template
from typing import Any

from cpc_tf.config import PretrainConfig

# What stands in the result.json of a pre-training run and is worth repeating: how it is called, how it is written.
FIGURES = {
    "loss": ("InfoNCE loss, summed over directions and offsets (nats)", "{:.3f}"),
    "accuracy": ("contrastive accuracy", "{:.3f}"),
    "bound": ("InfoNCE bound on mutual information (nats)", "{:.3f}"),
    "effective_rank": ("effective rank of the latents", "{:.1f}"),
    "knn": ("nearest-neighbour accuracy of averaged weights", "{:.3f}"),
}

TEMPLATE = Template("""\
# CPC v2 encoder `$encoder`, pre-trained on `$dataset`

Turns pictures into feature vectors that a small classifier can be trained on. It learned from pictures without labels,
by Contrastive Predictive Coding (CPC v2, Hénaff et al., ICML 2020), as implemented by cpc_tf. A TensorFlow 2 SavedModel
with TF-Hub's image interface; it needs TensorFlow and tensorflow_hub, and nothing of cpc_tf.

## Inputs and outputs

| call | gives |
|---|---|
| `module(images)` | features `[N, $feature_dim]` of whole images |
| `module(images, return_endpoints=True)` | a dictionary: see below |
| `module.patched(images)` | latents `[N, R, C, $feature_dim]`: each patch of the grid on its own, as in pre-training |
| `module.patched(images, return_endpoints=True)` | the same dictionary, with `[N, R, C]` in front |

The dictionary has the feature map of each stack of blocks (`stack1`, `stack2`, ...), the last one normalized
(`feature_map`, `[N, h, w, $feature_dim]`) and its mean (`features`).

`images`: float32 `[N, height, width, 3]`, RGB in [0, 1], any height and width. All calls take `training` (True lets
batch norm, if there is any, use and update the statistics of the batch). It computes in float32. Signatures:
`serving_default` (`features`, `feature_map`) and `patched` (`latents`).

## Geometry

| | px |
|---|---|
| images are resized to | $resize x $resize |
| and cropped to | $image_size x $image_size |
| patch | $patch_size x $patch_size |
| distance of neighbouring patches | $patch_stride |

At $image_size x $image_size the grid has $grid x $grid patches. Other sizes give other grids; `patched` does not see
what is left over below and on the right, and refuses images smaller than a patch.

## Training

| | |
|---|---|
| pictures | `$dataset`, split `$split`, labels not used |
| encoder | `$encoder`, $parameters parameters, norm `$norm`, blocks `$block_order`$stack |
| patch augmentation | `$augment` |
| run | `$run`, step $step of batches of $batch_size, $weights weights |
| software | $versions |

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

# The same, fine-tuned. Layer norm: a small learning rate and a warm-up help.
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

The terms of the pictures it learned from (`$dataset`) may extend to these weights; the code that made them comes with
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


def render(description: dict[str, Any], run: PretrainConfig, result: dict[str, Any]) -> str:
    """The card's text.

    Args:
      description: the content of encoder.json.
      run: the run's settings.
      result: its result.json; empty if it has not ended.
    """
    encoder = description["encoder"]
    return TEMPLATE.substitute(
        {
            **description,
            **description["geometry"],
            **encoder,
            "parameters": f"{description['parameters']:,}",
            "stack": f", output of stack {encoder['output_stack']}" if encoder["output_stack"] else "",
            "grid": run.geometry.grid,
            "split": run.data.split,
            "augment": run.augment.augment,
            "batch_size": run.training.batch_size,
            "versions": ", ".join(f"{name} {version}" for name, version in description["versions"].items()),
            "figures": _figures(result, description["step"]),
        }
    )


def _figures(result: dict[str, Any], step: int) -> str:
    """A table of what the run measured, which may have been at another step than the exported one."""
    known = [(text, form.format(result[key])) for key, (text, form) in FIGURES.items() if key in result]
    if not known:
        return "The run had not ended when this was exported: there are no figures."
    other = "" if result.get("step") == step else ", which is not the exported step"
    rows = [f"| {text} | {value} |" for text, value in known]
    head = [f"| measured at the end of the run, step {result.get('step')}{other} | |", "|---|---|"]
    return "\n".join(head + rows)
