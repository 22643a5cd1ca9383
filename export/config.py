"""Exports what a run trained as a TF-Hub module: its encoder, its classifier with the encoder, or
its detector.

    cpc-tf export --workdir=runs/photos/small/pretrain --output=runs/photos/small/hub
    cpc-tf export --workdir=runs/photos/small/efficient_0.1 --output=runs/photos/small/classifier
    cpc-tf export --workdir=runs/collages/small/detect --output=runs/collages/small/detector
    cpc-tf export --workdir=runs/photos/small/efficient_0.1 --format=serving --output=models/photos
    # An encoder of an earlier version, written again:
    cpc-tf export --module=OLD_MODULE --output=NEW_MODULE

The directory holds a TF2 SavedModel, its card (README.md) and encoder.json, classifier.json or
detector.json. It appears only once the module has been checked in a fresh process.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import ConfigError, Settings, count, setting
from cpc_tf.encoders.released import NAMES

SAVED_MODEL = "savedmodel"
SERVING = "serving"
TFLITE = "tflite"
ONNX = "onnx"
KERAS3 = "keras3"
HUGGING_FACE = "huggingface"
KAGGLE = "kaggle"


@dataclasses.dataclass(frozen=True)
class RuntimeConfig(Settings):
    """What to make of a module, and of which module."""

    format: str = setting(
        SAVED_MODEL,
        "What to write: a 'savedmodel' for TensorFlow, the same as the next version of a"
        " model of TensorFlow Serving, --output/1 ('serving'), or one image per call for"
        " phones ('tflite'), images of any size for ONNX Runtime and others ('onnx'), a"
        " trainable model of Keras 3 ('keras3', of an encoder alone), or the module with the"
        " metadata of a site that shares models, which nothing is uploaded to ('huggingface',"
        " 'kaggle')",
        choices=(SAVED_MODEL, SERVING, TFLITE, ONNX, KERAS3, HUGGING_FACE, KAGGLE),
    )
    module: str = setting(
        "",
        "Module of `cpc-tf export` to convert to another --format, instead of a --workdir; the"
        f" name of one that comes with the code ({NAMES}) is enough; without --format an encoder of"
        " an earlier version, to write it again as this version does",
        path=True,
    )
    quantize: str = setting(
        "none",
        "What --format=tflite keeps in 8 bits, which makes a quarter of the size: 'none'; 'weights'"
        " alone; 'int8', convolutions and matrix products with their inputs and outputs, for"
        " processors that want that",
        choices=("none", "weights", "int8"),
    )
    representative: str = setting(
        "",
        "Folder of images, of which 100 are used to choose the ranges of --quantize=int8;"
        " empty: of the images that the run in --workdir learned from",
        path=True,
    )
    labelled: str = setting(
        "",
        "Folder of images, one subfolder per class, on which accuracy is measured before and"
        " after the conversion; of more, 1,000 are used; empty: with --quantize, the images"
        " that the run in --workdir was tested on",
        path=True,
    )

    def check_together(self) -> None:
        """Raises ConfigError if settings contradict each other; each for itself may have any of its
        values.
        """
        if self.quantize != "none" and self.format != TFLITE:
            raise ConfigError(
                "quantize",
                self.quantize,
                f"not with --format={self.format}; it goes with --format=tflite",
            )
        if self.quantize != "int8" and self.representative:
            raise ConfigError(
                "representative", self.representative, "only --quantize=int8 uses it; leave it out"
            )
        if self.format not in (TFLITE, ONNX, KERAS3) and self.labelled:
            raise ConfigError(
                "labelled", self.labelled, f"not used with --format={self.format}; leave it out"
            )


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """The settings of `cpc-tf export`."""

    workdir: str = setting("", "Directory of the run to export", path=True)
    output: str = setting(
        "",
        "Directory to write the TF-Hub module to, which must not exist yet; of --format=serving the"
        " folder of versions",
        path=True,
        needed="a directory for the module, e.g. --output=runs/first/hub",
    )
    part: str = setting(
        "all",
        "What to export of a run on labels: 'all', its classifier with the encoder inside, or the"
        " 'encoder' alone, if the run trained it",
        choices=("all", "encoder"),
    )
    weights: str = setting(
        "averaged",
        "Polyak averages or the weights themselves; pre-training has averages, and fine-tuning by"
        " --encoder_adam=paper",
        source="App. A",
        choices=("averaged", "raw"),
    )
    step: int = count(
        0, "Step of the checkpoint to export; 0: the newest intact one", unit="steps", minimum=0
    )
    check_pixels: bool = setting(
        True,
        "Whether an encoder refuses pixels outside [0, 1], for which its features would look"
        " plausible and be wrong",
    )
    runtime: RuntimeConfig = RuntimeConfig()

    def check(self):
        self.runtime.check_together()
        if self.workdir and self.runtime.module:
            raise ConfigError(
                "module",
                self.runtime.module,
                f"not with --workdir={self.workdir}; name one of the two",
            )
        if self.runtime.quantize == "int8" and not self.runtime.representative and not self.workdir:
            raise ConfigError(
                "quantize",
                "int8",
                "needs --representative=FOLDER, about 100 images such as the model will see",
            )

    def check_complete(self):
        if not self.workdir and not self.runtime.module:
            raise ConfigError(
                "--workdir= is empty: name the directory of a run, e.g. --workdir=runs/first"
            )
        super().check_complete()
