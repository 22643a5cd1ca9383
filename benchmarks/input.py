"""Measures the input of pre-training: python -m benchmarks.input [--only=FILE ...] [--pictures=DIR]
> table.md

Counts images per second of one core, by its CPU time: from encoded images in memory to batches of
augmented views, with the settings of each preset. The images are made up: the embedded photographs
in the usual size of the preset's data.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import subprocess
import sys
import time

from absl import app, flags

# Folder of flags/ -> usual width and height of the images; any other: 64 x 64 px without
# compression, as `photos` has.
SIZES = {"imagenet": (500, 375), "imagenette": (213, 160), "bccd": (640, 480)}
BATCH = 8  # images: the batch does not change the work, and batches are read ahead


def main(argv) -> None:
    """Prints a table with a row for each kind of input; presets with the same input share it."""
    del argv
    given = flags.FLAGS
    if given.measure:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
        print(json.dumps(measure(given.measure, given.seconds, given.pictures, given.test)))
        return
    presets = given.only or sorted(map(str, pathlib.Path("flags").glob("*/pretrain*.flags")))
    print(f"| preset | images/s of a core | cores for {given.gpu_rate:g} images/s |\n|---|---|---|")
    for same in by_input(presets):
        rate = _run_child(same[0], given)
        names = ", ".join(preset.removeprefix("flags/").removesuffix(".flags") for preset in same)
        print(f"| {names} | {rate:.0f} | {cores(rate, given.gpu_rate):.1f} |", flush=True)


def cores(rate: float, gpu_rate: float) -> float:
    """Returns the cores that a GPU needs, from the images/s of a core and of the GPU."""
    return gpu_rate / rate


def by_input(presets: list[str]) -> list[list[str]]:
    """Groups presets whose images are decoded, cut and augmented alike."""
    groups = {}
    for preset in presets:
        config = _config(preset)
        key = (config.objective.kind.VIEW, config.geometry, config.augment, _size(preset))
        groups.setdefault(key, []).append(preset)
    return list(groups.values())


def _size(preset: str) -> tuple[int, int] | None:
    return SIZES.get(pathlib.Path(preset).parent.name)


def _config(preset: str):
    from cpc_tf.core import cli
    from cpc_tf.pretrain.config import PretrainConfig

    return cli.parse(PretrainConfig, [f"--flagfile={preset}"])


def _run_child(preset: str, given: flags.FlagValues) -> float:
    """Returns what a fresh process on one core measures."""
    command = [sys.executable, "-m", "benchmarks.input", f"--measure={preset}"]
    command += [
        f"--pictures={given.pictures}",
        f"--seconds={given.seconds}",
        f"--test={given.test}",
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(preset: str, seconds: float, pictures: str = "", test: bool = False) -> float:
    """Returns images per second of CPU time of this process; `pictures`: a folder, '' for made-up
    ones.
    """
    encoded = _found(pictures) if pictures else made_up(preset)
    batches = iter(dataset(preset, encoded, test))
    for _ in range(8):  # fills what is read ahead
        next(batches)
    start = time.process_time()
    images = 0
    while time.process_time() - start < seconds:
        next(batches)
        images += BATCH
    return images / (time.process_time() - start)


def dataset(preset: str, encoded: list[bytes], test: bool = False):
    """Returns endless batches of BATCH images with the settings of a preset, a tf.data.Dataset.

    With `test` they are those of a classifier of patches when it is tested.
    """
    import tensorflow as tf

    from cpc_tf.data import pipeline
    from cpc_tf.data.source import NO_LABEL, IndexedSource

    class Pictures(IndexedSource):
        class_names = ()
        num_examples = len(encoded)
        _encoded = tf.constant(encoded)

        def read(self, index):
            return {"encoded": self._encoded[index], "label": tf.constant(NO_LABEL, tf.int64)}

    config = _config(preset)
    if test:
        return pipeline.plain_patches(Pictures(), config.geometry, BATCH).repeat()
    view = config.objective.kind.VIEW
    return pipeline.batches(
        Pictures(), view, config.geometry, config.augment, global_batch=BATCH, seed=0
    )


def _found(pictures: str) -> list[bytes]:
    found = sorted(pathlib.Path(pictures).rglob("*.[jJ][pP]*[gG]"))
    return [path.read_bytes() for path in found[:: max(1, len(found) // 200)][:200]]


def made_up(preset: str) -> list[bytes]:
    """Returns encoded images: photographs in the usual size of the preset's data."""
    from cpc_tf.data import photos

    size = _size(preset)
    encoded = []
    for photo in photos.regions("train"):
        stream = io.BytesIO()
        if size:
            photo.convert("RGB").resize(size).save(stream, "JPEG", quality=95)
        else:
            photo.convert("RGB").resize((64, 64)).save(stream, "PNG", compress_level=0)
        encoded.append(stream.getvalue())
    return encoded


if __name__ == "__main__":
    flags.DEFINE_multi_string(
        "only", [], "preset of cpc_tf.pretrain to measure; default: all in flags/"
    )
    flags.DEFINE_string("pictures", "", "folder of JPEGs to use in their place, searched below")
    flags.DEFINE_float("seconds", 5, "length of each measurement, in seconds of CPU time")
    flags.DEFINE_float("gpu_rate", 1000, "images that a GPU trains in a second")
    flags.DEFINE_bool(
        "test", False, "measure the centre crops that a test shows in place of augmented views"
    )
    flags.DEFINE_string("measure", "", "one preset to measure; used by the benchmark itself")
    app.run(main)
