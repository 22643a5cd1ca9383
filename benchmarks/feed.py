"""Measures what an input server costs: python -m benchmarks.feed [--presets=NAME,..] [--seconds=5] > table.md

Counts images per second of CPU time, in this process alone and in this process with a server beside it, where the time
of both counts. The last column is the speed of one stream whose batches are ready, by the clock: the most that a host
gets from its server. Images are those of `benchmarks.input`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable

from absl import app, flags

from benchmarks import input


def main(argv) -> None:
    """Prints a table with a row for each preset."""
    del argv
    print(
        "| preset | kB an image | images/s a core, here | with a server | ratio | ready batches, images/s | GB/s |"
    )
    print("|---|---|---|---|---|---|---|")
    command = [sys.executable, "-m", "cpc_tf.feed", "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as feed:
        port = re.fullmatch(r"input server: ready at port (\d+)\n", feed.stdout.readline())[1]
        os.environ["CPC_TF_FEED"] = f"localhost:{port}"
        for preset in flags.FLAGS.presets:
            print(_row(preset, feed.pid, flags.FLAGS.seconds), flush=True)
        feed.kill()


def _row(preset: str, feed: int, seconds: float) -> str:
    import tensorflow as tf

    from cpc_tf.training import feeds

    flagfile = f"flags/{preset}.flags"
    batches = input.dataset(flagfile, input.made_up(flagfile))
    element = next(iter(batches))
    size = sum(tensor.numpy().nbytes for tensor in element.values()) / input.BATCH
    ready = tf.data.Dataset.from_tensors(element).repeat()

    def fed(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return feeds.through(lambda: dataset, tf.distribute.InputContext())

    def both() -> float:
        return time.process_time() + _cpu_seconds(feed)

    here = _rate(batches, time.process_time, seconds)
    with feeds.connected():
        with_feed = _rate(fed(batches), both, seconds)
    with feeds.connected():
        stream = _rate(fed(ready), time.monotonic, seconds)
    return (
        f"| {preset} | {size / 1e3:.0f} | {here:.0f} | {with_feed:.0f} | {with_feed / here:.2f} | {stream:.0f} | "
        f"{stream * size / 1e9:.2f} |"
    )


def _rate(dataset, clock: Callable[[], float], seconds: float) -> float:
    """Returns images per second of a clock, measured for some seconds."""
    batches = iter(dataset)
    for _ in range(20):  # fills what is read ahead
        next(batches)
    began, end, images = clock(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        next(batches)
        images += input.BATCH
    return images / (clock() - began)


def _cpu_seconds(process: int) -> float:
    """Returns the CPU time of another process of Linux."""
    with open(f"/proc/{process}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    presets = ["photos/pretrain", "imagenet/pretrain_resnet50"]
    flags.DEFINE_list("presets", presets, "presets of cpc_tf.pretrain")
    flags.DEFINE_float("seconds", 5, "length of each measurement, in seconds of the clock")
    app.run(main)
