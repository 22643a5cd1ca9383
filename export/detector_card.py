"""The detector's card: README.md inside the exported directory. It says what is known, and nothing else."""

from __future__ import annotations

from string import Template
from typing import Any

from cpc_tf.detect.config import DetectConfig

TEMPLATE = Template("""\
# Detector of $count classes, fine-tuned on `$dataset`

Finds objects in pictures: Faster R-CNN on an encoder of cpc_tf, which implements CPC v2 (Hénaff et al., ICML 2020). A
TensorFlow 2 SavedModel; it needs TensorFlow, and nothing of cpc_tf.

## Inputs and outputs

`images`: uint8 `[N, height, width, 3]`, RGB, any height and width, the same for all images of a batch. Inside they are
resized to $test_area px in all, on a canvas of $canvas_height x $canvas_width px.

| output | |
|---|---|
| `boxes` | float32 `[N, $places, 4]`: (ymin, xmin, ymax, xmax) in pixels of the image, from 0; sides are differences |
| `scores` | float32 `[N, $places]`: probabilities, best first |
| `labels` | int32 `[N, $places]`: places in the list of classes, -1 where there is no detection |
| `names` | string `[N, $places]`: of the classes, empty where there is no detection |
| `count` | int32 `[N]`: how many of the $places are detections |

| call | gives |
|---|---|
| `module(images)` | detections of a score above $detection_score |
| `module.detect(images, least_score)` | those above another score |
| `module.class_names()` | the classes, in the order of the labels |

Signature: `serving_default`. Classes: $names.

## Training

| | |
|---|---|
| pictures | `$dataset`, split `$split` |
| encoder | `$encoder`, endpoint `$backbone_endpoint` |
| run | `$run`, step $step of batches of $batch_size |
| software | $versions |

$figures

## Use

```python
import tensorflow as tf

MODULE = "path/to/this/directory"
images = tf.zeros([1, 300, 400, 3], tf.uint8)  # yours: e.g. tf.io.decode_image(tf.io.read_file(name), channels=3)[None]

module = tf.saved_model.load(MODULE)
found = module(images)
for i in range(found["count"][0]):
    ymin, xmin, ymax, xmax = found["boxes"][0, i].numpy()
    print(found["names"][0, i].numpy().decode(), float(found["scores"][0, i]), (ymin, xmin, ymax, xmax))
```

The terms of the pictures it learned from (`$dataset`) may extend to these weights; the code that made them comes with
cpc_tf's LICENSE.
""")


def render(description: dict[str, Any], run: DetectConfig, result: dict[str, Any]) -> str:
    """The card's text.

    Args:
      description: the content of detector.json.
      run: the run's settings.
      result: its result.json; empty if it has not ended.
    """
    canvas = run.canvas
    return TEMPLATE.substitute(
        {
            **description,
            **description["detector"],
            "count": len(description["class_names"]),
            "names": ", ".join(description["class_names"]),
            "places": run.detector.inference.detections,
            "test_area": round(canvas.test_area * canvas.area_scale),
            "canvas_height": canvas.canvas_height,
            "canvas_width": canvas.canvas_width,
            "batch_size": run.training.batch_size,
            "versions": ", ".join(f"{name} {version}" for name, version in description["versions"].items()),
            "figures": _figures(result, description["step"]),
        }
    )


def _figures(result: dict[str, Any], step: int) -> str:
    """What the run measured, which may have been at another step than the exported one."""
    if "map11" not in result:
        return "The run had not ended when this was exported: there are no figures."
    other = "" if result["steps"] == step else ", which is not the exported step"
    return (
        f"Mean average precision on split `{result['test_split']}` at an overlap of {result['iou']:g}, step "
        f"{result['steps']}{other}: {100 * result['map11']:.1f} % over 11 points, {100 * result['map_all']:.1f} % over "
        "all points."
    )
