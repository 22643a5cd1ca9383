"""The memory of pre-training, by XLA's own analysis: python -m benchmarks.memory --jax=PYTHON >
table.md

Flags that differ from the presets stand at the end, after '--', e.g. `-- --recompute`. Counts the
variables of presets and has their gradient steps compiled for one device, which need not be there
(`benchmarks/compile.py`). Two numbers of images give a line, and the line the number that fits. The
compiler comes with JAX, in an environment of its own (`benchmarks/requirements.txt`). Nothing is
run.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from absl import app, flags

ROOT = pathlib.Path(__file__).parents[1]
PRESETS = ["imagenet/pretrain_resnet161", "imagenet/pretrain_resnet50", "photos/pretrain"]

OF_DATASET = 1_281_167  # images of ImageNet, for an objective with a bank of them
GB = 1e9
CARDS = (8, 16, 24, 40, 80)  # GB
SPARE = 0.1  # of a card: for CUDA, the workspaces of its libraries, and fragmentation


def main(argv) -> None:
    """Prints a row for each preset."""
    given = flags.FLAGS
    changed = argv[1:]
    counts = [int(count) for count in given.images]
    if given.program:
        print(json.dumps(write_program(given.program, counts[0], changed)))
        return
    print(
        "| preset | variables, GB | gradients, GB | activations, GB | GB an image | fit into "
        + " | ".join(f"{card} GB" for card in CARDS)
        + " |\n"
        + "|---" * (5 + len(CARDS))
        + "|"
    )
    for preset in given.presets:
        points = [_point(preset, images, changed, given.jax, given.device) for images in counts]
        print(row(" ".join([preset, *changed]), points), flush=True)


def _point(
    preset: str, images: int, changed: Sequence[str], python: str, device: str
) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as room:
        words = [f"--images={images}", "--", f"--flagfile={ROOT}/flags/{preset}.flags", *changed]
        ours = [sys.executable, "-m", "benchmarks.memory", f"--program={room}/program", *words]
        theirs = [
            python,
            str(pathlib.Path(__file__).with_name("compile.py")),
            f"{room}/program",
            device,
        ]
        return {"images": images, **_run(ours), **_run(theirs)}


def _run(command: list[str]) -> dict[str, int]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def row(name: str, points: Sequence[dict[str, int]]) -> str:
    """Returns a row of the table from two compiled programs."""
    first, second = points
    slope = (needed(second) - needed(first)) / (second["images"] - first["images"])
    fixed = needed(first) - slope * first["images"]
    activations = ", ".join(
        f"{point['images']}: {point['temporaries'] / GB:.1f}" for point in points
    )
    cells = [
        f"{first['variables'] / GB:.1f}",
        f"{first['outputs'] / GB:.1f}",
        activations,
        f"{slope / GB:.2f}",
    ]
    fitting = [str(min(first["batch"], fit(card * GB, fixed, slope))) for card in CARDS]
    return f"| {name} | {' | '.join([*cells, *fitting])} |"


def needed(point: dict[str, int]) -> int:
    """Returns the bytes of a step: variables, images, gradients, and what is kept between
    operations.
    """
    images = point["arguments"] - point["weights"]
    return point["variables"] + images + point["outputs"] + point["temporaries"]


def fit(memory: float, fixed: float, slope: float) -> int:
    """Returns the largest power of two of images that fits into a card of so many bytes; 0: none
    does.
    """
    images = ((1 - SPARE) * memory - fixed) / slope
    return 1 << int(images).bit_length() - 1 if images >= 1 else 0


def write_program(path: str, images: int, words: Sequence[str]) -> dict[str, int]:
    """Writes the gradient step of pre-training on so many images as serialized HLO.

    Returns:
      The images of a batch as `words` have it, and the bytes of the weights and of all variables.
    """
    import numpy as np
    import tensorflow as tf

    from cpc_tf.core import cli, native
    from cpc_tf.core.settings import replace
    from cpc_tf.pretrain.config import PretrainConfig
    from cpc_tf.pretrain.trainee import Pretraining
    from cpc_tf.training.strategy import make_strategy
    from cpc_tf.training.trainee import BatchPosition

    given = cli.parse(PretrainConfig, words)
    config = replace(given, batch_size=images)
    trainee = Pretraining(config, make_strategy("single"), 1000, OF_DATASET)
    step = native.jit(
        lambda *inputs: trainee.gradients(
            BatchPosition(tf.constant(0), tf.constant(0, tf.int64)), *inputs
        )
    )
    batch = {key: tf.zeros(spec.shape, spec.dtype) for key, spec in trainee.batch_specs.items()}
    program = step.experimental_get_compiler_ir(*trainee.inputs(batch))(stage="hlo_serialized")
    pathlib.Path(path).write_bytes(program)

    def size(variables) -> int:
        return sum(int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables)

    weights = size(trainee.model.variables)
    variables = weights + size([*trainee.optimizer.variables, *trainee.average.averages])
    return {"batch": given.training.batch_size, "weights": weights, "variables": variables}


if __name__ == "__main__":
    flags.DEFINE_string(
        "jax", sys.executable, "a Python that has JAX and its compiler for the device"
    )
    flags.DEFINE_string("device", "h100", "'h100', or a topology of TPUs, e.g. 'v4:2x2x1'")
    flags.DEFINE_list("presets", PRESETS, "flag files below flags/")
    flags.DEFINE_list("images", ["16", "64"], "two numbers of images on the device")
    flags.DEFINE_string("program", "", "file for a program, used by the benchmark itself")
    app.run(main)
