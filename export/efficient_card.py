"""What the card says of an encoder that learned from labels."""

from __future__ import annotations

from typing import Any

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.trainee import SUPERVISED
from export.card import History, measured_at, table


def history(description: dict[str, Any], phase: EfficientConfig, result: dict[str, Any]) -> History:
    """What the card says of the run.

    Args:
      description: the content of encoder.json.
      phase: the settings of the phase that the encoder comes from.
      result: the run's result.json.
    """
    before = description["began_as"]
    learned = "fine-tuned" if before else "trained"
    return History(
        title=f"Encoder `{description['encoder']['encoder']}`, {learned} on labels of `{description['dataset']}`",
        summary=(
            f"It was {past(description)}.\nThe protocol is that of CPC v2 for few labels (Hénaff et al., ICML 2020, "
            "appendix C), as implemented by cpc_tf."
        ),
        seen=_seen(phase, bool(before)),
        rows=_rows(description, phase),
        figures=_figures(description, phase, result),
        pictures=list(dict.fromkeys(_pictures(description))),
    )


def past(description: dict[str, Any]) -> str:
    """What an encoder has learned, from the first step on, as its encoder.json and those of its ancestors know it."""
    run = f"(run `{description['run']}`, step {description['step']})"
    if "num_train_labels" not in description:
        return f"pre-trained on `{description['dataset']}` without labels {run}"
    labels = (
        f"on {description['num_train_labels']} labels ({100 * description['label_fraction']:.3g} %) of "
        f"`{description['dataset']}` {run}"
    )
    before = description["began_as"]
    return f"{past(before)}, then fine-tuned {labels}" if before else f"trained from scratch {labels}"


def _pictures(description: dict[str, Any]) -> list[str]:
    """The data sets it learned from, oldest first."""
    before = description.get("began_as")
    return [*(_pictures(before) if before else []), description["dataset"]]


def _seen(phase: EfficientConfig, module: bool) -> str:
    size = f"{phase.images.image_size} x {phase.images.image_size} px"
    if not module:
        return f"It saw whole images, {size}: the grid is a single patch."
    if phase.classifier.endpoint == "latents":
        return f"While it was fine-tuned it saw the patches of the grid on images of {size}, each on its own."
    return f"Patches are those of the module that it began as; while it was fine-tuned it saw whole images, {size}."


def _rows(description: dict[str, Any], phase: EfficientConfig) -> list[tuple[str, str]]:
    """Of the table on its training."""
    before, classifier = description["began_as"], phase.classifier
    labels = f"{description['num_train_labels']} labels ({100 * description['label_fraction']:.3g} %)"
    supervised = description["phase"] == SUPERVISED  # which ends in a linear layer, whatever the flags say
    head = (
        "a linear layer"
        if supervised
        else f"{classifier.head_blocks} residual blocks on endpoint `{classifier.endpoint}`"
    )
    return [
        ("pictures", f"`{description['dataset']}`, split `{phase.data.split}`, {labels}"),
        ("began as", f"module `{before['module']}`" if before else "random weights"),
        ("image augmentation", f"`{phase.augment.title}`, crops of at least {100 * phase.images.crop_area:.3g} %"),
        ("classifier", f"{head}; not part of this module"),
        (
            "run",
            f"`{description['run']}`, phase `{description['phase']}`, step {description['step']} of batches of "
            f"{phase.training.batch_size}, {description['weights']} weights",
        ),
    ]


def _figures(description: dict[str, Any], phase: EfficientConfig, result: dict[str, Any]) -> str:
    """A table of what the run measured, with the classifier that is not exported."""
    found = result["phases"][description["phase"]]
    place = f"on split `{phase.labels.test_split}`, {result['num_classes']} classes"
    rows = [(text, f"{100 * found[name]:.1f} %") for name, text in (("top1", "top-1"), ("top5", "top-5"))]
    return table(rows, measured_at(place, found["steps"], description["step"]))
