"""What to do with the labels: the commands that the page shows in the end, filled in."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from cpc_tf.classify.run import FINE_TUNING_PAYS
from cpc_tf.data import names
from cpc_tf.label.config import LabelConfig


def commands(
    config: LabelConfig, classes: Sequence[str], labels: int, is_measured: bool, encoder: str
) -> dict[str, Any]:
    """Returns {"commands": [{"what", "command"}, ...], "remarks": [line, ...]}.

    Args:
      config: the settings of the session.
      classes: of the labels.
      labels: how many there are.
      is_measured: whether the page states an accuracy.
      encoder: for what takes one encoder.
    """
    run = f"runs/{names.of_folder(config.pictures.rstrip('/')) or 'mine'}"
    chosen = config.encoder != LabelConfig.encoder
    data = [f"--labelled={config.pictures}", f"--labels={config.labels}"]
    data += ["--ambiguous_folders=classes"] if any(map(names.is_doubtful, classes)) else []
    workdir = f"--workdir={run}/classify"
    output = f"--output={run}/predictions.csv"
    lines = {
        "Train a classifier, measure its accuracy, and classify all images": [
            *(
                "classify",
                *data,
                *([f"--encoder={config.encoder}"] if chosen else []),
                workdir,
                f"--pictures={config.pictures}",
                output,
            )
        ],
        "Classify other images": [
            *(
                "predict",
                f"--model={run}/classify/classifier",
                "--pictures=new_pictures",
                "--output=new.csv",
            )
        ],
        "Export the classifier to another place": ["export", workdir, f"--output={run}/exported"],
    }
    if labels >= FINE_TUNING_PAYS:
        tuning = ["efficient", f"--encoder={encoder}", *data, f"--workdir={run}/efficient"]
        lines["Fine-tune the encoder, too: hours, for a few points more"] = tuning
    remarks = [
        "Most of these images were not drawn at random: they are representative or hard ones."
    ]
    if is_measured:
        remarks.append(
            "The accuracy above is measured on those drawn at random: only they"
            " represent the folder."
        )
    else:
        remarks.append(
            "Too few of those drawn at random have a label to measure the accuracy: label"
            " some more, or test the classifier on other images."
        )
    if len(classes) < 2:
        remarks = ["A classifier needs images of at least two classes."]
    return {
        "commands": [
            {"what": what, "command": shlex.join(["cpc-tf", *words])}
            for what, words in lines.items()
        ],
        "remarks": remarks,
    }
