"""Measures the training step beside the same network in PyTorch: python -m benchmarks.train_step >
table.md

The step is that of flags/photos/pretrain.flags on random patches: loss, gradient, clip, Adam,
running average; or that of another objective: `--set=--objective=moco --set=--patch_size=64
--set=--patch_stride=64`. Each figure comes from a fresh process; the ways take turns, and ratios
are within a round, since machines are noisy. The peer needs PyTorch
(`benchmarks/requirements.txt`), perhaps in an environment of its own: `--torch=PYTHON`.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

import numpy as np
from absl import app, flags

PRESET = pathlib.Path(__file__).parents[1] / "flags/photos/pretrain.flags"
PEER = pathlib.Path(__file__).with_name("train_step_torch.py")
BATCH = 32
WARM_UP = 3
STEPS = 15
IMAGES = 15_200  # in the preset's dataset, for --set=--objective=... with a bank
OURS = {"ours, bfloat16": "bfloat16", "ours, float32": "float32"}
WHOLE = "ours, bfloat16, files to weights"
PEERS = {
    "PyTorch, bfloat16": ["--precision=bf16"],
    "PyTorch, float32": ["--precision=f32"],
    "PyTorch, bfloat16, compiled": ["--precision=bf16", "--compile"],
}


def main(argv) -> None:
    """Prints a table for each encoder."""
    del argv
    given = flags.FLAGS
    if given.child:
        what, precision = given.child.split(":")
        print(
            json.dumps(_peak(precision) if what == "peak" else measure(what, precision, given.set))
        )
        return
    for encoder in given.encoders:
        table(
            [_round(encoder, given.torch, given.set, given.data_dir) for _ in range(given.rounds)],
            encoder,
        )


def table(rounds: Sequence[dict[str, dict]], encoder: str) -> None:
    """Prints the table of an encoder: medians of rounds, each {way: its 'ms', and of ours the
    'share' of the peak}.
    """
    print(
        f"\n| {encoder}, step of {BATCH} images | ms | images/s | ours, bfloat16 / this | share of"
        " peak |"
    )
    print("|---|---|---|---|---|")
    for way in (*OURS, WHOLE, *PEERS):
        found = [
            (each[way], each[way]["ms"] / each["ours, bfloat16"]["ms"])
            for each in rounds
            if each[way]
        ]
        if not found:
            print(f"| {way} | - | - | - | - |")
            continue
        median = statistics.median(one["ms"] for one, _ in found)
        ratio = statistics.median(ratio for _, ratio in found)
        share = f"{statistics.median(one['share'] for one, _ in found):.2f}" if way in OURS else "-"
        print(
            f"| {way} | {median:.0f} | {1000 * BATCH / median:.0f} | {ratio:.2f} | {share} |",
            flush=True,
        )


def _round(encoder: str, torch: str, settings: Sequence[str], data: str) -> dict[str, dict]:
    """One measurement of each way; of a peer that failed: nothing."""
    found = {}
    for way, precision in OURS.items():
        # in a process that has all cores for one operation
        peak = _run_child("peak", precision, settings)["gflops"]
        step = _run_child(encoder, precision, settings)
        found[way] = {**step, "share": step["gflop"] / (step["ms"] / 1000) / peak}
    found[WHOLE] = _train(encoder, settings, data)
    for way, arguments in PEERS.items():
        try:
            found[way] = _run(
                [torch, str(PEER), f"--encoder={encoder}", f"--batch={BATCH}", *arguments]
            )
        except ChildFailed as error:  # as without PyTorch
            print(error, file=sys.stderr)
            found[way] = {}
    return found


def _train(encoder: str, settings: Sequence[str], data: str) -> dict[str, float]:
    """Milliseconds of a step of a whole pre-training, its input and all, as the run records it."""
    with tempfile.TemporaryDirectory() as room:
        command = [
            sys.executable,
            "-m",
            "cpc_tf.pretrain",
            f"--flagfile={PRESET}",
            f"--encoder={encoder}",
        ]
        command += [
            f"--batch_size={BATCH}",
            "--train_epochs=0",
            "--train_steps=120",
            "--steps_per_loop=20",
        ]
        command += [f"--workdir={room}/run", f"--data_dir={data or room}", *settings]
        _run([*command, "--probe_every=0"], parse=False)
        last = pathlib.Path(room, "run/metrics.jsonl").read_text().splitlines()[-1]
    return {"ms": 1000 * BATCH / json.loads(last)["images_per_second"]}


def _run_child(what: str, precision: str, settings: Sequence[str]) -> dict:
    command = [sys.executable, "-m", "benchmarks.train_step", f"--child={what}:{precision}"]
    return _run([*command, *(f"--set={flag}" for flag in settings)])


class ChildFailed(RuntimeError):
    """A measuring process has failed."""


def _run(command: list[str], parse: bool = True) -> dict:
    """What a child printed last, if wanted. Raises ChildFailed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ChildFailed(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}")
    return json.loads(done.stdout.splitlines()[-1]) if parse else {}


def measure(encoder: str, precision: str, lines: Sequence[str] = ()) -> dict[str, float]:
    """Returns the median milliseconds of our step, and its arithmetic; `lines`: flags that differ
    from the preset.
    """
    step, graph = make_step(encoder, precision, lines)
    seconds = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return {"ms": 1000 * statistics.median(seconds[WARM_UP:]), "gflop": arithmetic(graph) / 1e9}


def make_step(encoder: str, precision: str, lines: Sequence[str] = ()):
    """Returns a function that makes a step of pre-training, and the step's graph."""
    import tensorflow as tf

    from cpc_tf.core import cli
    from cpc_tf.pretrain.config import PretrainConfig
    from cpc_tf.pretrain.trainee import Pretraining
    from cpc_tf.training.strategy import share_cores, strategy_of

    preset = [
        f"--flagfile={PRESET}",
        f"--encoder={encoder}",
        f"--precision={precision}",
        f"--batch_size={BATCH}",
    ]
    config = cli.parse(PretrainConfig, [*preset, *lines])
    share_cores(config.training, config.parts)
    strategy = strategy_of(config.training)
    training = Pretraining(config, strategy, 1000, IMAGES)
    # of views, and of places in the dataset
    specs = training.batch_specs
    random = np.random.default_rng(0)
    batch = {
        key: random.integers(0, 256, spec.shape, spec.dtype.as_numpy_dtype)
        for key, spec in specs.items()
    }
    batch = {key: tf.constant(values) for key, values in batch.items()}
    run = tf.function(lambda: strategy.run(training.train_step, (batch,)), autograph=False)
    return lambda: float(run()["loss"]), run.get_concrete_function().graph


def arithmetic(graph) -> float:
    """Counts multiplications and additions of the convolutions and matrix products of a graph with
    its gradients.
    """
    total = 0
    for operation in graph.get_operations():
        shapes = [list(x.shape) for x in (*operation.inputs, *operation.outputs)]
        if operation.type in ("Conv2D", "Conv2DBackpropInput"):
            total += 2 * np.prod(shapes[2]) * np.prod(shapes[1][:3])
        elif operation.type == "Conv2DBackpropFilter":
            total += 2 * np.prod(shapes[2]) * np.prod(shapes[3][:3])
        elif operation.type in ("MatMul", "BatchMatMulV2"):
            transposed = operation.get_attr(
                "transpose_a" if operation.type == "MatMul" else "adj_x"
            )
            total += 2 * np.prod(shapes[2]) * shapes[0][-2 if transposed else -1]
    return float(total)


def _peak(precision: str) -> dict[str, float]:
    """Returns the best rate of a product of large matrices, GFLOP/s."""
    import tensorflow as tf

    side = 2048
    one = tf.cast(tf.random.stateless_normal([side, side], [0, 1]), precision)
    best = 1e9
    for _ in range(10):
        start = time.perf_counter()
        tf.linalg.matmul(one, one)[0, 0].numpy()
        best = min(best, time.perf_counter() - start)
    return {"gflops": 2 * side**3 / best / 1e9}


if __name__ == "__main__":
    flags.DEFINE_integer("rounds", 3, "measurements of each way")
    flags.DEFINE_string("torch", sys.executable, "a Python that has PyTorch")
    flags.DEFINE_list("encoders", ["small", "medium"], "which ones")
    flags.DEFINE_multi_string("set", [], "a flag of ours, e.g. --set=--directions=1")
    flags.DEFINE_string("data_dir", "", "where the prepared photographs are kept; empty: nowhere")
    flags.DEFINE_string(
        "child", "", "one measurement, 'WHAT:precision'; used by the benchmark itself"
    )
    app.run(main)
