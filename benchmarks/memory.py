"""The memory of a training step, by XLA's own analysis: python -m benchmarks.memory --jax=PYTHON > table.md

Counts the variables of a preset, writes its gradient step as a program, and has it compiled for one device that need
not be there (`benchmarks/memory_compile.py`).
"""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np

FLAGS = pathlib.Path(__file__).parents[1] / "flags"


def write_program(path: str, lines: list[str]) -> dict[str, int]:
    """Writes the gradient step of pre-training as serialized HLO; returns the bytes of the variables."""
    import tensorflow as tf

    from cpc_tf import cli
    from cpc_tf.pretrain.config import PretrainConfig
    from cpc_tf.pretrain.trainee import Pretraining
    from cpc_tf.training.strategy import make_strategy

    config = cli.parse(PretrainConfig, [*lines, "--xla=on"])
    strategy = make_strategy("single")
    trainee = Pretraining(config, strategy, 1000)
    view = tf.zeros([config.training.batch_size, *config.objective.kind.VIEW.shape(config.geometry)], tf.uint8)
    program = trainee._gradients.experimental_get_compiler_ir(view)(stage="hlo_serialized")
    pathlib.Path(path).write_bytes(program)
    size = lambda variables: sum(int(np.prod(v.shape)) * v.dtype.size for v in variables)
    return {"parameters": size(trainee.trained), "variables": 0}


if __name__ == "__main__":
    print(json.dumps(write_program(sys.argv[1], sys.argv[2:])))
