"""Boxes, small detectors and slow, plain answers that tests of detection share."""

import numpy as np
import tensorflow as tf

from cpc_tf.core import cli
from cpc_tf.core.keras import keras
from cpc_tf.core.settings import replace
from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.faster_rcnn import FasterRCNN
from cpc_tf.detect.scoring import ImageDetections, Truth
from cpc_tf.detect.targets import Draws
from cpc_tf.detect.trainee import WHOLE, DetectorTraining, build_detector
from cpc_tf.encoders import networks

SIDE = 64
DRAWS = Draws(tf.constant([5, 6]), 4)
SMALL = cli.parse(
    DetectConfig,
    """--encoder=random --backbone=tiny --canvas_height=48 --canvas_width=64
    --smallest_area=800 --largest_area=2400 --test_area=1500 --area_scale=1 --max_boxes=100
    --anchor_sizes=8,16,32 --rpn_width=8 --rpn_samples=32 --rpn_train_candidates=60
    --rpn_train_proposals=20 --rpn_test_candidates=60 --rpn_test_proposals=20
    --region_samples=16 --region_positive_fraction=0.5 --region_reduce=8 --region_pool=4
    --region_blocks=1 --region_width=16 --region_bottleneck=8 --region_stride=1
    --detections=12 --batch_size=2 --learning_rate=0.01 --rate_batch=0 --warmup_steps=0
    --rate_drops= --train_steps=10""".split(),
)
TINY = replace(SMALL.detector, region_reduce=6, region_chunk=5, backbone_norm="layer")


def make_tiny(monkeypatch):
    """Makes 'tiny' smaller still, two blocks of its stride: half of what there is to trace and to
    compile.
    """
    stacks = (networks.Stack(1, 8, 32, 2), networks.Stack(1, 16, 64, 2))
    tiny = networks.Architecture(stacks, stem_kernel=3, stem_pool=False)
    monkeypatch.setitem(networks.ARCHITECTURES, "tiny", tiny)


def random_boxes(count, seed=0, canvas=100):
    random = np.random.default_rng(seed)
    corner = random.uniform(0, canvas * 0.7, [count, 2])
    return np.concatenate([corner, corner + random.uniform(1, canvas * 0.3, [count, 2])], 1).astype(
        np.float32
    )


def truth(boxes, labels=None, difficult=None):
    """The objects of an image; of the class 0 and not difficult unless it is said."""
    labels = [0] * len(boxes) if labels is None else labels
    difficult = [False] * len(boxes) if difficult is None else difficult
    return Truth(
        np.array(boxes, float).reshape(-1, 4), np.array(labels, int), np.array(difficult, bool)
    )


def found(boxes, scores, labels=None):
    """Detections in an image; of the class 0 unless it is said."""
    labels = [0] * len(boxes) if labels is None else labels
    return ImageDetections(
        np.array(boxes, float).reshape(-1, 4), np.array(scores, float), np.array(labels, int)
    )


def overlap(one, other):
    """The intersection over the union of two boxes."""
    shared = np.prod(
        [max(0, min(one[i + 2], other[i + 2]) - max(one[i], other[i])) for i in (0, 1)]
    )
    return shared / (sum((b[2] - b[0]) * (b[3] - b[1]) for b in (one, other)) - shared)


def oracle(boxes, scores, count, threshold):
    """Greedily, pair by pair."""
    taken = []
    for i in np.argsort(-scores, kind="stable"):
        y1, x1, y2, x2 = boxes[i]
        if not (scores[i] > -np.inf and y2 > y1 and x2 > x1) or len(taken) == count:
            continue
        if all(overlap(boxes[i], boxes[j]) < threshold for j in taken):
            taken.append(i)
    return taken


def squares(boxes, labels, background=0.5):
    """An image with squares of a colour per class."""
    image = np.full([SIDE, SIDE, 3], background, np.float32)
    for (y1, x1, y2, x2), label in zip(np.round(boxes).astype(int), labels):
        image[y1:y2, x1:x2] = np.eye(3)[label]
    return image


def batch(*images, places=101):
    """Arguments of `training_losses` but the seed: images are (boxes, labels)."""
    boxes, labels = (
        np.zeros([len(images), places, 4], np.float32),
        np.full([len(images), places], -1, np.int32),
    )
    for i, (these, classes) in enumerate(images):
        boxes[i, : len(these)], labels[i, : len(these)] = np.reshape(these, [-1, 4]), classes
    pictures = np.stack([squares(*image) for image in images])
    sizes = np.full([len(images), 2], SIDE, np.int32)
    return [tf.constant(x) for x in (pictures, sizes, boxes, labels)]


ORDINARY = batch(([[8, 8, 30, 28], [40, 30, 60, 60]], [0, 2]), ([[20, 5, 36, 21]], [1]))


def detector_training(config, strategy=None, classes=3, steps=10, phase=WHOLE):
    """A detector and its training."""
    strategy = strategy or tf.distribute.get_strategy()
    return DetectorTraining(
        config, build_detector(config, classes, strategy), strategy, steps, phase
    )


class Backbone(keras.layers.Layer):
    """Stride 8, in two convolutions."""

    compiles = True

    def __init__(self):
        super().__init__(name="backbone")
        self.convs = [
            keras.layers.Conv2D(12, 4, 4, activation="relu"),
            keras.layers.Conv2D(10, 3, 2, "same", activation="relu"),
        ]

    def call(self, images, training=False):
        return self.convs[1](self.convs[0](images))


def small_detector():
    """A detector of 3 classes that is quick to trace."""
    keras.utils.set_random_seed(1)
    return FasterRCNN(Backbone(), 3, TINY)


def training_step(model):
    """Arguments of `training_losses` but the seed -> losses and gradients."""

    @tf.function(autograph=False)
    def step(*arguments):
        with tf.GradientTape() as tape:
            losses = model.training_losses(*arguments, DRAWS)
        return losses, tape.gradient(losses["loss"], model.trainable_variables)

    return step
