"""The programs that a TPU would run for the presets: one for each kind of step, at the preset's
size a core.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from unittest import mock

import tensorflow as tf

from benchmarks.pod import Pod
from cpc_tf.core import cli, native
from cpc_tf.data.views import PatchGrid
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.trainee import DetectorTraining, build_detector
from cpc_tf.efficient.classifier import (
    ENCODED,
    FINE_TUNED,
    FROZEN,
    SUPERVISED,
    Classification,
    build_classifier,
)
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.phases import load_encoder
from cpc_tf.efficient.propagation import method_of
from cpc_tf.encoders.card import NEW, EncoderName
from cpc_tf.encoders.load import LoadedEncoder
from cpc_tf.encoders.network import make_encoder
from cpc_tf.linear.classifier import LinearTraining
from cpc_tf.linear.config import LinearConfig
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training.trainee import Trainee

ROOT = pathlib.Path(__file__).parents[1]
# parts without training
ENCODE = "encode"
FIND = "find"
LENGTH = 1000  # steps; only numbers in the program depend on it
CLASSES = {"imagenet": 1000, "voc": 20}  # of the presets below with a classifier or a detector


@dataclasses.dataclass(frozen=True)
class Step:
    """A program of a preset.

    Attributes:
      preset: file below flags/; the task is the beginning of its name.
      part: of the task: its phase, or 'encode' or 'find'; for 'linear' the preset that the encoder
        is from.
      flags: what differs from the preset.
      replicas: cores that share the preset's batch.
    """

    preset: str
    part: str = ""
    flags: tuple[str, ...] = ()
    replicas: int = 32

    @property
    def name(self) -> str:
        """How tables and records call it."""
        return " ".join([self.preset, *([self.part] if self.part else []), *self.flags])

    @property
    def words(self) -> list[str]:
        """Its command line."""
        return [f"--flagfile={ROOT}/flags/{self.preset}.flags", *self.flags]

    @property
    def classes(self) -> int:
        """Classes of the dataset."""
        return CLASSES[self.preset.split("/")[0]]


class Program(NamedTuple):
    """What a replica computes in a step."""

    hlo: bytes  # serialized, before the compiler's passes
    images: int  # of a replica
    trained: int  # bytes of the variables that are trained


def write(step: Step) -> Program:
    """Traces a step as a replica of a pod would. Raises ConfigError if its flags do not go
    together.
    """
    task = step.preset.split("/")[1].split("_")[0]
    traced = {"pretrain": _pretrain, "linear": _linear, "efficient": _efficient, "detect": _detect}[
        task
    ]
    with mock.patch.object(native, "runs_on_cpu", return_value=False):
        return traced(step, Pod(step.replicas))


def _pretrain(step: Step, pod: Pod) -> Program:
    config = cli.parse(PretrainConfig, step.words)
    trainee = Pretraining(config, pod, LENGTH)
    return _training(trainee, trainee.batch_specs)


def _linear(step: Step, pod: Pod) -> Program:
    """On a new encoder, which computes as a module does, cut as in the pre-training of the same
    name.
    """
    pretrained = cli.parse(PretrainConfig, [f"--flagfile={ROOT}/flags/{step.part}.flags"])
    config = cli.parse(
        LinearConfig, [*step.words, "--geometry_from=flags", "--encoder=random:MODULE"]
    )
    with pod.scope():
        network = make_encoder(pretrained.encoder, config.numerics.precision)
        encoder = LoadedEncoder(network, EncoderName.parse(NEW))
    grid = PatchGrid().shape(pretrained.geometry)
    latents = encoder.patch_latents.get_concrete_function(
        _images(1, *grid)
    ).structured_outputs.shape[1:]
    trainee = LinearTraining(config, encoder.patch_latents, tuple(latents), step.classes, pod)
    return _training(
        trainee, {"patches": _images(trainee.rows, *grid), "label": _labels(trainee.rows)}
    )


def _efficient(step: Step, pod: Pod) -> Program:
    config = cli.parse(EfficientConfig, step.words)
    encoder = load_encoder(config, pod)
    side = config.images.image_size
    if step.part == ENCODE:
        return _inference(pod, encoder.encode, ENCODED, _images(ENCODED, side, side, 3))
    with pod.scope():
        classifier = build_classifier(config, step.part, encoder.map_shape(side), step.classes)
    trainee = Classification(encoder, classifier, step.part, config, LENGTH, pod)
    batch = {"image": _images(trainee.rows, side, side, 3), "label": _labels(trainee.rows)}
    if method := method_of(config.propagation):
        shape = method.view.shape(config.images)
        batch["unlabelled"] = _images(trainee.rows, config.propagation.unlabelled_ratio, *shape)
    return _training(trainee, batch)


def _detect(step: Step, pod: Pod) -> Program:
    config = cli.parse(DetectConfig, step.words)
    model = build_detector(config, step.classes, pod)
    canvas = config.canvas
    rows = config.training.batch_size // step.replicas
    images = _images(rows, canvas.canvas_height, canvas.canvas_width, 3)
    sizes = tf.TensorSpec([rows, 2], tf.int32)
    if step.part == FIND:
        return _inference(pod, model.find, rows, images, sizes)
    trainee = DetectorTraining(config, model, pod, LENGTH, step.part)
    objects = {
        "boxes": tf.TensorSpec([rows, canvas.max_boxes, 4], tf.float32),
        "labels": tf.TensorSpec([rows, canvas.max_boxes], tf.int64),
        "left_out": tf.TensorSpec([rows], tf.int32),
    }
    return _training(trainee, {"image": images, "size": sizes, **objects})


def _training(trainee: Trainee, batch: dict[str, tf.TensorSpec]) -> Program:
    """The whole update: gradients, their exchange, optimizers and averages."""
    names = list(batch)
    hlo = trainee.strategy.program(
        lambda *values: trainee.train_step(dict(zip(names, values))), *batch.values()
    )
    return Program(hlo, trainee.rows, _bytes(trainee.trained))


def _inference(pod: Pod, function: Callable, images: int, *inputs: tf.TensorSpec) -> Program:
    return Program(pod.program(function, *inputs), images, 0)


def _images(*shape: int) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.uint8)


def _labels(count: int) -> tf.TensorSpec:
    return tf.TensorSpec([count], tf.int64)


def _bytes(variables: Sequence[tf.Variable]) -> int:
    return sum(v.shape.num_elements() * tf.as_dtype(v.dtype).size for v in variables)


def _both(*steps: Step) -> Iterator[Step]:
    """Each step without recomputation, and with it."""
    for step in steps:
        for flag in ("--recompute", "--norecompute"):
            yield dataclasses.replace(step, flags=(*step.flags, flag))


_SMALL = {"replicas": 8}  # presets with batches of 32 or fewer
_RESNET161 = ("--encoder=random", "--backbone=resnet161")
_FROM_LABELS = ("pixels", "uda", "vat", "pseudo_labels")
_RESNET50 = ("--encoder=random", "--backbone=resnet50")

# The most important first. Presets that are not here have the program of another one, or are of
# others' modules.
STEPS = [
    Step("photos/pretrain", **_SMALL),
    *_both(Step("imagenet/pretrain_resnet161"), Step("imagenet/pretrain_resnet50")),
    Step("imagenet/linear", "imagenet/pretrain_resnet161"),
    *_both(Step("imagenet/efficient", FINE_TUNED, _RESNET161)),
    Step("imagenet/efficient", FROZEN, _RESNET161),
    *_both(Step("voc/detect", FINE_TUNED, _RESNET161, **_SMALL)),
    Step("voc/detect", FIND, _RESNET161, **_SMALL),
    Step("imagenet/efficient", ENCODE, _RESNET161),
    Step("imagenet/linear", "imagenet/pretrain_resnet50"),
    *_both(Step("imagenet/efficient", FINE_TUNED, _RESNET50)),
    Step("imagenet/pretrain_cpc_v1"),
    Step("imagenet/pretrain_rotation"),
    Step("imagenet/pretrain_instance"),
    *(
        Step(f"imagenet/efficient_{name}", SUPERVISED, ("--encoder=pixels",))
        for name in _FROM_LABELS
    ),
    Step("voc/detect", FROZEN, _RESNET161, **_SMALL),
    *(
        Step(f"imagenet_ladder/pretrain_{name}")
        for name in ("1_v1", "2_mc", "3_bu", "4_ln", "5_rc", "7_lp")
    ),
    Step("photos/pretrain_relative_position", **_SMALL),
    Step("imagenette/pretrain", **_SMALL),
    Step("bccd/pretrain_128px", **_SMALL),
]
