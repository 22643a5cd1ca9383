"""Measures the patch augmentation: python -m benchmarks.augment [--pictures=DIR of JPEGs] >
table.md

Every figure comes from a fresh process that is bound to one core or two; all figures of a table
from one run. The peer needs `pip install -r benchmarks/requirements.txt`; without it its rows stay
empty.
"""

from __future__ import annotations

import json
import os
import pathlib
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from absl import app, flags

# Appendix A.
RESIZE = 300
CROP = 260
PATCH = 80
STRIDE = 36
GRID = (CROP - PATCH) // STRIDE + 1
BATCH = 8  # images handed over at a time, so that Python's share vanishes

WAYS = {
    "decode": "decode + resize + crop",
    "native": "augment 36 patches, native",
    "reference": "augment 36 patches, reference",
    "opencv": "augment 36 patches, OpenCV from Python (recipe given)",
    "pipeline": "file bytes -> batch, native",
}


def main(argv) -> None:
    del argv
    given = flags.FLAGS
    if given.child:
        name, cores = given.child.split(":")
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])
        print(json.dumps(measure(name, int(cores), given.pictures, given.seconds)))
        return
    same = [f"--pictures={given.pictures}", f"--seconds={given.seconds}"]
    cores = min(2, len(os.sched_getaffinity(0)))
    found = {(way, n): _run_child(way, n, same) for n in range(1, cores + 1) for way in WAYS}
    print("| images/s | one core | two cores | ratio | peak MB, one core |\n|---|---|---|---|---|")
    for way, title in WAYS.items():
        one = found[way, 1]
        two = found.get((way, 2), {})
        ratio = _divide(two.get("rate"), one.get("rate"))
        print(
            f"| {title} | {_show(one.get('rate'))} | {_show(two.get('rate'))} | {ratio} |"
            f" {_show(one.get('peak'))} |"
        )
    rate = {way: found[way, 1].get("rate") for way in WAYS}
    print(f"\nnative / reference, one core: {_divide(rate['native'], rate['reference'])}")
    print(f"native / OpenCV peer, one core: {_divide(rate['native'], rate['opencv'])}")
    print(
        "pipeline cost / decode + resize cost, one core:"
        f" {_divide(rate['decode'], rate['pipeline'])}\n"
    )
    print("| us per 80 px patch, one core | native | reference | OpenCV |\n|---|---|---|---|")
    for row, values in _run_child("primitives", 1, same).items():
        print(f"| {row} | " + " | ".join(_show(v) for v in values) + " |", flush=True)


def _run_child(name: str, cores: int, same: Sequence[str]) -> dict:
    """What a fresh process on so many cores measures; {} if it cannot."""
    command = [sys.executable, "-m", "benchmarks.augment", f"--child={name}:{cores}", *same]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} on {cores}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def measure(name: str, cores: int, pictures: str, seconds: float) -> dict:
    """Returns images per second and peak MB of a way in this process; of 'primitives' the rows of
    their table.
    """
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(cores)
    tf.config.threading.set_inter_op_parallelism_threads(cores)
    if name == "primitives":
        return _primitives(_patches(pictures)[0], seconds)
    if name == "opencv":
        rate = _opencv_rate(_patches(pictures), cores, seconds)
    else:
        rate = _dataset_rate(_dataset(name, pictures), cores, seconds)
    return {"rate": rate, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _dataset(name: str, pictures: str):
    """A tf.data pipeline without end of one way; elements are single images' results."""
    import tensorflow as tf

    from cpc_tf import augment
    from cpc_tf.augment.config import AugmentConfig
    from cpc_tf.data import views
    from cpc_tf.data.decode import decode

    config = AugmentConfig()
    count = GRID * GRID

    def crop(counter, file):
        return views.random_crop(views.resize(decode(file, RESIZE), RESIZE), CROP, 0, counter)

    def augmented(counter, patches, engine):
        return augment.apply(patches, augment.draw(config, 0, counter, count, PATCH), engine)

    def pipeline(counter, file):
        patches = tf.reshape(
            views.grid_of_patches(crop(counter, file), PATCH, STRIDE), [count, PATCH, PATCH, 3]
        )
        return augmented(counter, patches, "native")

    if name in ("decode", "pipeline"):
        files = tf.data.Dataset.from_tensor_slices(
            [path.read_bytes() for path in _jpegs(pictures)]
        ).cache()
        return files.repeat().enumerate(), crop if name == "decode" else pipeline
    ready = tf.data.Dataset.from_tensor_slices(_patches(pictures)).cache().repeat().enumerate()
    return ready, lambda n, patches: augmented(n, patches, name)


def _dataset_rate(dataset_and_function, cores: int, seconds: float) -> float:
    """Images per second through a map over as many threads as cores."""
    import tensorflow as tf

    dataset, function = dataset_and_function
    options = tf.data.Options()
    options.threading.private_threadpool_size = cores
    options.autotune.enabled = False
    dataset = (
        dataset.map(function, num_parallel_calls=cores, deterministic=True).batch(BATCH).prefetch(1)
    )
    iterator = iter(dataset.with_options(options))
    next(iterator), next(iterator)
    start = time.perf_counter()
    images = 0
    while time.perf_counter() - start < seconds:
        next(iterator)
        images += BATCH
    return images / (time.perf_counter() - start)


def _opencv_rate(images: np.ndarray, cores: int, seconds: float) -> float:
    """Images per second of the peer, images spread over threads (OpenCV works without the
    interpreter's lock).
    """
    import cv2

    from benchmarks import augment_opencv
    from cpc_tf import augment
    from cpc_tf.augment.config import AugmentConfig

    cv2.setNumThreads(1)
    drawn = (augment.draw(AugmentConfig(), 0, i, GRID * GRID, PATCH) for i in range(32))
    recipes = [augment.Recipe(*(field.numpy() for field in recipe)) for recipe in drawn]

    def work(worker: int) -> int:
        done = 0
        while time.perf_counter() < end:
            augment_opencv.apply(
                images[(worker + done) % len(images)], recipes[(worker + done) % len(recipes)]
            )
            done += 1
        return done

    end = time.perf_counter() + seconds
    with ThreadPoolExecutor(cores) as pool:
        return sum(pool.map(work, range(cores))) / seconds


def _primitives(patches: np.ndarray, seconds: float) -> dict:
    """us per patch of each primitive and step in each engine; moving the pixels in and out is
    subtracted.
    """
    import tensorflow as tf

    from cpc_tf import augment
    from cpc_tf.augment.config import AugmentConfig
    from cpc_tf.augment.operations import all_primitives
    from cpc_tf.augment.reference import COLOR_ORDERS

    config = AugmentConfig()
    n = len(patches)
    idle = augment.idle(n, PATCH)
    drawn = augment.draw(config, 0, 0, n, PATCH)
    yes = tf.fill([n], True)
    recipes = {"nothing (pixels in and out)": idle}
    for primitive in all_primitives():
        low, high = config.policy.bounds(primitive.name, PATCH)[0]
        between = tf.cast(tf.linspace(low, high - primitive.whole, n), tf.float32)[:, None]
        recipes[primitive.name] = idle._replace(
            op=tf.fill([n, 1], primitive.number), magnitude=between
        )
    recipes["elastic + shear"] = idle._replace(
        elastic=yes, displacement=drawn.displacement, shear=drawn.shear
    )
    recipes["histogram"] = idle._replace(histogram=yes, curve=drawn.curve)
    for order, letters in enumerate(COLOR_ORDERS):
        recipes[f"Inception {letters}"] = idle._replace(
            distort=yes, order=tf.fill([n], order), color=drawn.color
        )
    recipes["grey"] = idle._replace(grey=yes)

    engines = [
        tf.function(lambda p, r, e=e: augment.apply(p, r, e)) for e in ("native", "reference")
    ]
    table = {}
    for name, recipe in recipes.items():
        times = [_microseconds(lambda f=f, r=recipe: f(patches, r), seconds) / n for f in engines]
        table[name] = [*times, _peer(patches, recipe, seconds)]
    base = table["nothing (pixels in and out)"]
    return {
        name: [None if a is None else a - (b if row else 0) for a, b in zip(times, base)]
        for row, (name, times) in enumerate(table.items())
    }


def _peer(patches, recipe, seconds: float) -> float | None:
    try:
        from benchmarks import augment_opencv
    except ImportError:
        return None
    recipe = type(recipe)(*(np.asarray(field) for field in recipe))
    return _microseconds(lambda: augment_opencv.apply(patches, recipe), seconds) / len(patches)


def _microseconds(function, seconds: float) -> float:
    """The least time of a call: what the machine needs when nothing else runs."""
    function()
    times = []
    end = time.perf_counter() + min(0.3, seconds / 10)
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e6 * min(times)


def _jpegs(pictures: str) -> list[pathlib.Path]:
    """The files of a folder; of '' scikit-image's photographs as they lie in its package."""
    if pictures:
        found = sorted(pathlib.Path(pictures).rglob("*.[jJ][pP]*[gG]"))
        return found[:: max(1, len(found) // 200)][:200]
    import skimage

    return sorted(pathlib.Path(skimage.__file__).parent.rglob("data/*.jpg"))


def _patches(pictures: str) -> np.ndarray:
    """Patches of real images, uint8 [images, GRID * GRID, PATCH, PATCH, 3]."""
    from PIL import Image

    images = [
        np.asarray(Image.open(path).convert("RGB").resize([CROP, CROP]))
        for path in _jpegs(pictures)[:16]
    ]
    starts = range(0, CROP - PATCH + 1, STRIDE)
    return np.stack(
        [[x[y : y + PATCH, z : z + PATCH] for y in starts for z in starts] for x in images]
    )


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _divide(a: float | None, b: float | None) -> str:
    return f"{a / b:.2f}" if a and b else "-"


if __name__ == "__main__":
    pictures = "folder of JPEGs, searched below; empty: scikit-image's photographs"
    flags.DEFINE_string("pictures", "", pictures)
    flags.DEFINE_float("seconds", 3, "length of each measurement")
    flags.DEFINE_string("child", "", "one measurement, 'name:cores'; used by the benchmark itself")
    app.run(main)
