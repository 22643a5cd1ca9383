"""Makes what a machine with a GPU and JAX needs to pre-train with our step, without TensorFlow
there, and brings the result back.

    python -m studies.gpu.kit make .kit FLAGS    # here
    python3 .kit/train.py --kit=.kit --minutes=24 --output=FOLDER   # there
    python -m studies.gpu.kit take .kit FOLDER   # here: writes the run of --workdir
    cpc-tf export --workdir=... --output=...

FLAGS are those of `cpc-tf pretrain`, --workdir among them. The kit keeps them. The colours of the
patches are distorted there by train.py, so that AUGMENT is the augmentation of such a run.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from PIL import Image

from cpc_tf.core import cli
from cpc_tf.data import catalog, pipeline
from cpc_tf.data.source import Source
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training.checkpoint import Checkpoints
from cpc_tf.training.session import open_run
from cpc_tf.training.strategy import strategy_of

AUGMENT = ("--augment=small_patches", "--augment_changes=elastic=0,histogram=0")
# The step is one program of XLA, for one device.
ONE_PROGRAM = ("--xla=on", "--parts=1", "--strategy=single", "--nodeterministic")
QUALITY = 75  # of JPEG
# One step is done here, for which XLA's optimizations on a CPU take longer than they save.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)


class Begun(NamedTuple):
    """A run before its first step.

    Attributes:
      config: its settings.
      source: its images.
      training: its model and all other variables.
      step: patches uint8 [B, R, C, P, P, 3] -> metrics in the order of `training.reported`.
    """

    config: PretrainConfig
    source: Source
    training: Pretraining
    step: tf.types.experimental.GenericFunction

    @property
    def patches(self) -> tf.TensorSpec:
        """What a step takes."""
        return self.training.batch_specs["patches"]

    @property
    def arguments(self) -> list[tf.Tensor]:
        """The program's arguments after the patches: handles of variables, or constants."""
        return self.step.get_concrete_function(self.patches).captured_inputs

    @property
    def averages(self) -> list[int]:
        """The places of the averaged weights among the arguments, in the order of `trained`."""
        places = {id(argument): place for place, argument in enumerate(self.arguments)}
        return [places[id(average.handle)] for average in self.training.average.averages]


def make(kit: pathlib.Path, flags: Sequence[str]) -> None:
    """Writes the kit, and prints how it is used."""
    begun = _begun(flags)
    config = begun.config
    kit.mkdir(parents=True, exist_ok=True)

    # The program, and the values that it begins with.
    zeros = tf.zeros(begun.patches.shape, tf.uint8)
    program = begun.step.experimental_get_compiler_ir(zeros)(stage="hlo_serialized")
    (kit / "step.hlo").write_bytes(program)
    values = [_value(argument) for argument in begun.arguments]
    stored: dict[str, np.ndarray] = {}
    first: dict[tuple, int] = {}
    places = []  # of the values that are stored: averages begin as the weights, moments as zeros
    for index, value in enumerate(map(_half, values)):
        place = first.setdefault((value.dtype.str, value.shape, value.tobytes()), index)
        places.append(place)
        stored[f"a{place}"] = value
    np.savez_compressed(kit / "state.npz", **stored)
    geometry = config.geometry
    about = {
        "flags": list(flags),
        "metrics": begun.training.reported,
        "dtypes": [f"{value.dtype}" for value in values],
        "places": places,
        "averages": begun.averages,
        "steps": config.training.steps(begun.source.num_examples),
        "batch": config.training.batch_size,
        "seed": config.training.seed,
        "crop": geometry.image_size,
        "patch": geometry.patch_size,
        "stride": geometry.patch_stride,
        "mirror": geometry.mirror,
    }
    (kit / "kit.json").write_text(json.dumps(about))

    # A step to compare with, from the values as the kit has them.
    for argument, value in zip(begun.arguments, values):
        _assign(argument, _half(value))
    random = np.random.default_rng(0)
    patches = random.integers(0, 256, begun.patches.shape, np.uint8)
    metrics = dict(zip(begun.training.reported, begun.step(tf.constant(patches))))
    np.savez_compressed(kit / "expected.npz", patches=patches, loss=metrics["loss"].numpy())

    # The images, and the program that trains.
    images = [*_encoded(begun)]
    ends = np.cumsum([len(image) for image in images])
    np.savez(kit / "images.npz", data=np.frombuffer(b"".join(images), np.uint8), ends=ends)
    shutil.copy(pathlib.Path(__file__).with_name("train.py"), kit)
    size = sum(path.stat().st_size for path in kit.iterdir()) / 2**20
    print(f"{len(values)} arguments, {len(ends)} images, {size:.1f} MiB in {kit}")
    print(f"there: python3 {kit}/train.py --kit={kit} --minutes=24 --output=FOLDER")


def take(kit: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the run of --workdir: its checkpoint, with the averages as weights, and its
    records.
    """
    begun = _begun(json.loads((kit / "kit.json").read_text())["flags"])
    training = begun.training
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    values: dict[int, np.ndarray] = {}
    for piece in sorted(folder.glob("averages_*.npz")):
        values |= {int(name[1:]): value for name, value in np.load(piece).items()}
    for place, average, weights in zip(begun.averages, training.average.averages, training.trained):
        for variable in (average, weights):
            variable.assign(values[place].astype(variable.dtype.as_numpy_dtype))
    training.step.assign(log[-1]["step"])

    with open_run(begun.config, "pretrain") as (workdir, _):
        workdir.begin(step=0)
        for record in log:
            workdir.record(record["step"], {k: v for k, v in record.items() if k != "step"})
        Checkpoints(workdir.path, training.checkpoint).save(log[-1]["step"])
        data = begun.config.data
        workdir.finish({"dataset": data.origin, "levels": None, **log[-1]})
    print(f"{len(values)} averages of step {log[-1]['step']} are in {begun.config.workdir}")


def _begun(flags: Sequence[str]) -> Begun:
    config = cli.parse(PretrainConfig, [*flags, *AUGMENT, *ONE_PROGRAM])
    source = catalog.open_source(config.data, config.data.split)
    strategy = strategy_of(config.training)
    steps = config.training.steps(source.num_examples)
    training = Pretraining(config, strategy, steps, source.num_examples)

    @tf.function(jit_compile=True, autograph=False)
    def step(patches: tf.Tensor) -> list[tf.Tensor]:
        metrics = strategy.run(training.train_step, ({"patches": patches},))
        return [metrics[name] for name in training.reported]

    return Begun(config, source, training, step)


def _value(argument: tf.Tensor) -> np.ndarray:
    if argument.dtype == tf.resource:
        argument = tf.raw_ops.ReadVariableOp(resource=argument, dtype=_dtype(argument))
    return np.asarray(argument.numpy())


def _assign(argument: tf.Tensor, value: np.ndarray) -> None:
    if argument.dtype == tf.resource:
        value = tf.cast(value, _dtype(argument))
        tf.raw_ops.AssignVariableOp(resource=argument, value=value)


def _dtype(handle: tf.Tensor) -> tf.DType:
    return tf.as_dtype(handle._handle_data.shape_and_type[0].dtype)


def _half(value: np.ndarray) -> np.ndarray:
    """Returns weights in half the bytes; single numbers stay as they are."""
    return value.astype(np.float16) if value.dtype == np.float32 and value.size > 1 else value


def _encoded(begun: Begun) -> Iterator[bytes]:
    """Yields the images, resized, as JPEG."""
    geometry = dataclasses.replace(begun.config.geometry, image_size=begun.config.geometry.resize)
    for batch in pipeline.plain_images(begun.source, geometry, 64):
        for image in batch["image"].numpy():
            out = io.BytesIO()
            Image.fromarray(image).save(out, "JPEG", quality=QUALITY)
            yield out.getvalue()


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("make", "take"):
        sys.exit(__doc__)
    _, word, place, *more = sys.argv
    if word == "make":
        make(pathlib.Path(place), more)
    else:
        take(pathlib.Path(place), pathlib.Path(more[0]))
