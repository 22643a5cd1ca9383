"""How each objective is trained in a comparison: its paper's setting, and one for short runs.

A method has two trials, so that none is searched more than another:

- PAPER: the augmentation, batch size and learning rate of its paper. No batch is larger than
  `LARGEST_BATCH`, since a short run would have too few steps. Where the paper does not use Adam,
  the rate is Adam's usual one.
- SHORT: the augmentation for small images, a larger rate, and a smaller batch unless the loss
  depends on statistics of the batch.

Banks, queues, clusters and momenta are scaled from the paper's data and length to those of the
comparison. All methods share the network, Adam, a cosine schedule and averaged weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cpc_tf.objectives.config import settings_class

PAPER = "paper"
SHORT = "short"
TRIALS = (PAPER, SHORT)
LARGEST_BATCH = 128
ADAM = 0.001  # Adam's usual rate
SHORT_RATE = 0.003

# Augmentation of whole images: colours distorted and grey images, as each group of papers has it.
STRONG = "distort=0.8,distort.hue=0.2,grey=0.2"
MILD = "distort=1,distort.hue=0.1,grey=0.2"
NO_COLOUR = ""  # crops and mirroring alone
# Of SHORT: the geometry and histograms of `small_patches`, too.
SMALL_IMAGES = "grey=0.2,distort.hue=0.1"

# Image side in px -> encoder.
ENCODERS = {64: "small", 128: "base"}


class Method(NamedTuple):
    """What a paper says of the training of an objective.

    Attributes:
      source: the paper.
      optimizer: of the paper, in words.
      batch: images of a step in the paper; 0: it does not say.
      changes: of the augmentation of whole images, `--augment_changes`; None: the objective sees
        patches, and `_of_patches` says how.
      rate: of Adam, where the paper has it.
      of_batch: whether the loss depends on the other images of the batch.
    """

    source: str
    optimizer: str
    batch: int
    changes: str | None
    rate: float = ADAM
    of_batch: bool = False


# In the order of the paper's tables, then later ones. studies/objectives/README.md says which
# values were compared with the authors' code; the others are quoted from memory, but for CPC's.
METHODS = {
    "cpc": Method("Hénaff et al. 2020", "Adam 0.0004", 512, None, rate=0.0004),
    "instance_bank": Method("Wu et al. 2018", "SGD 0.03", 256, MILD),
    "instance": Method("Chen et al. 2020", "LARS 4.8", 4096, STRONG, of_batch=True),
    "local_aggregation": Method("Zhuang et al. 2019", "SGD 0.03", 128, MILD),
    "moco": Method("He et al. 2019", "SGD 0.03", 256, MILD),
    "pirl": Method("Misra & van der Maaten 2019", "SGD 0.12", 1024, MILD),
    "cmc": Method("Tian et al. 2019", "SGD 0.03", 128, NO_COLOUR),
    "amdim": Method("Bachman et al. 2019", "Adam 0.0002", 1008, STRONG, 0.0002, of_batch=True),
    "rotation": Method("Gidaris et al. 2018", "SGD 0.01", 192, NO_COLOUR),
    "relative_position": Method("Doersch et al. 2015", "SGD", 0, None),
    "colorization": Method("Zhang et al. 2016", "Adam 0.00003", 40, NO_COLOUR, rate=0.00003),
    "deep_cluster": Method("Caron et al. 2018", "SGD 0.05", 256, NO_COLOUR),
    "exemplar": Method("Doersch & Zisserman 2017", "RMSProp", 0, MILD, of_batch=True),
    "byol": Method("Grill et al. 2020", "LARS 3.2", 4096, STRONG, of_batch=True),
    "vicreg": Method("Bardes et al. 2022", "LARS 1.6", 2048, STRONG, of_batch=True),
}


def training_flags(
    objective: str, trial: str, images: int, steps: int, side: int = 64
) -> list[str]:
    """Returns the flags of `cpc-tf pretrain`, but for the data and the directory.

    Args:
      objective: one of METHODS.
      trial: one of TRIALS.
      images: how many there are to train on.
      steps: length of the training.
      side: of the images, px: one of ENCODERS.
    """
    method = METHODS[objective]
    batch = _batch(method, trial, images)
    needs = settings_class(objective).NEEDS  # the same network, on lightness or colours
    encoder = f"{ENCODERS[side]}_{needs}" if needs else ENCODERS[side]
    return [
        f"--objective={objective}",
        f"--encoder={encoder}",
        *(_of_images(method, trial, side) if method.changes is not None else []),
        *(_of_patches(objective, trial, side) if method.changes is None else []),
        *_scaled(objective, images, steps, batch),
        *_optimizer(objective, trial),
        f"--batch_size={batch}",
        f"--warmup_steps={steps // 20}",
        f"--train_steps={steps}",
        "--schedule=cosine",
        "--average_decay=0.999",
        "--precision=float32",  # many processors compute bfloat16 slower
        "--steps_per_loop=20",
        "--checkpoint_every=500",
    ]


def _batch(method: Method, trial: str, images: int) -> int:
    """Returns the images of a step, of which there are no more than images."""
    batch = min(method.batch or LARGEST_BATCH, LARGEST_BATCH)
    if trial == SHORT:
        batch = LARGEST_BATCH if method.of_batch else 32
    return min(batch, 1 << int(math.log2(max(images, 1))))


def _optimizer(objective: str, trial: str) -> list[str]:
    rate = METHODS[objective].rate if trial == PAPER else SHORT_RATE
    if objective == "cpc":  # appendix A's moments and clipping are the defaults
        return [f"--learning_rate={rate}"]
    return [f"--learning_rate={rate}", "--beta1=0.9", "--clip_norm=1"]


def _of_images(method: Method, trial: str, side: int) -> list[str]:
    """Returns the flags of an objective that sees whole images, as a grid of one patch."""
    geometry = [
        f"--image_size={side}",
        f"--resize={side * 9 // 8}",
        f"--patch_size={side}",
        f"--patch_stride={side}",
        "--mirror",
    ]
    if not method.changes:
        return [*geometry, "--augment=none"]
    if trial == PAPER:
        return [*geometry, "--augment=none", f"--augment_changes={method.changes}"]
    return [*geometry, "--augment=small_patches", f"--augment_changes={SMALL_IMAGES}"]


def _of_patches(objective: str, trial: str, side: int) -> list[str]:
    """Returns the flags of an objective that sees a grid of patches, a quarter of the side each."""
    patch = side // 4
    if objective == "cpc":
        # Neighbours overlap by a quarter and are skipped.
        return [
            f"--image_size={side}",
            f"--resize={side * 9 // 8}",
            f"--patch_size={patch}",
            f"--patch_stride={patch * 3 // 4}",
            "--mirror",
            f"--augment={'full' if trial == PAPER else 'small_patches'}",
            "--steps_to_ignore=1",
            "--steps_to_predict=2",
            "--context_dim=64",
        ]
    # Relative position: a gap, so that no line goes on from patch to patch, and no mirroring, since
    # left and right are two of the answers. The paper's gap is half a patch.
    stride = patch * 3 // 2 if trial == PAPER else patch * 5 // 4
    cut = 2 * stride + patch
    return [
        f"--image_size={cut}",
        f"--resize={cut * 9 // 8}",
        f"--patch_size={patch}",
        f"--patch_stride={stride}",
        "--nomirror",
        f"--augment={'colour_drop' if trial == PAPER else 'small_patches'}",
    ]


def _scaled(objective: str, images: int, steps: int, batch: int) -> list[str]:
    """Returns the objective's own settings: its paper's, scaled to fewer images, a shorter training
    and a smaller network.
    """
    negatives = max(1, images // 8)
    # A copy of the network follows within a fortieth of the training, or as slowly as in the paper.
    momentum = max(0.9, 1 - 40 / max(steps, 1))
    settings = {
        "instance_bank": {"negatives": min(4096, negatives)},
        "pirl": {"negatives": min(32_000, negatives)},
        "cmc": {"negatives": min(16_384, negatives)},
        # As many images a cluster, and as large a part of the images, as in the papers.
        "local_aggregation": {
            "background": max(1, images * 4096 // 1_281_167),
            "clusters": max(2, images * 30_000 // 1_281_167),
        },
        "deep_cluster": {"clusters": max(2, images * 10_000 // 1_281_167)},
        # Whole batches, of no more than a quarter of the images.
        "moco": {
            "queue_length": batch * max(1, min(65_536, images // 4) // batch),
            "momentum": min(0.999, momentum),
        },
        # Heads in proportion to the network's features.
        "byol": {"hidden": 1024, "momentum": min(0.996, momentum)},
        "vicreg": {"dim": 1024},
        "amdim": {"dim": 512},
        "exemplar": {"dim": 1024},
    }
    return [
        f"--{objective}_{name}={value:g}" for name, value in settings.get(objective, {}).items()
    ]
