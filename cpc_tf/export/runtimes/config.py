"""Settings of an export for another runtime."""

from __future__ import annotations

import dataclasses
import importlib.util

from cpc_tf.settings import ConfigError, Settings, setting

SAVED_MODEL, TFLITE, ONNX, KERAS3 = "savedmodel", "tflite", "onnx", "keras3"


@dataclasses.dataclass(frozen=True)
class RuntimeConfig(Settings):
    """What to make of a module, and of which module."""

    format: str = setting(
        SAVED_MODEL,
        "What to write: a 'savedmodel' for TensorFlow, or one image a call for phones ('tflite'), images of any size "
        "for ONNX Runtime and others ('onnx'), or a trainable model of Keras 3 ('keras3', of an encoder alone)",
        choices=(SAVED_MODEL, TFLITE, ONNX, KERAS3),
    )
    module: str = setting(
        "", "Module of `cpc-tf export` to convert to another --format, instead of a --workdir", path=True
    )
    quantize: str = setting(
        "none",
        "What --format=tflite keeps in 8 bits, which makes a quarter of the size: 'none'; 'weights' alone; 'int8', "
        "convolutions and matrix products with their inputs and outputs, for processors that want that",
        choices=("none", "weights", "int8"),
    )
    representative: str = setting(
        "", "Folder of pictures, of which 100 are used to choose the ranges of --quantize=int8", path=True
    )
    labelled: str = setting(
        "",
        "Folder of pictures, one subfolder per class, on which accuracy is measured before and after the conversion; "
        "of more, 1,000 are used",
        path=True,
    )

    def check_together(self) -> None:
        """Raises ConfigError if settings contradict each other; each for itself may have any of its values."""
        if self.quantize != "none" and self.format != TFLITE:
            raise ConfigError(
                f"--quantize={self.quantize}: not with --format={self.format}; it goes with --format=tflite"
            )
        if self.quantize == "int8" and not self.representative:
            raise ConfigError(
                "--quantize=int8: needs --representative=FOLDER, about 100 pictures such as the model will see"
            )
        if self.quantize != "int8" and self.representative:
            raise ConfigError(f"--representative={self.representative}: only --quantize=int8 uses it; leave it out")
        if self.format == SAVED_MODEL and self.labelled:
            raise ConfigError(f"--labelled={self.labelled}: not used with --format=savedmodel; leave it out")
        if self.format == SAVED_MODEL and self.module:
            raise ConfigError(
                f"--module={self.module}: is a SavedModel already; choose --format=tflite, --format=onnx or "
                "--format=keras3"
            )


def check_installed(format: str) -> None:
    """Raises ConfigError if packages are missing that this format needs."""
    missing = [name for name in ("tf2onnx", "onnxruntime") if format == ONNX and not importlib.util.find_spec(name)]
    if missing:
        raise ConfigError(
            f"--format=onnx: needs {' and '.join(missing)}, which this environment does not have; install cpc_tf with "
            'its extra for ONNX: pip install "cpc_tf[classic-onnx]" or "cpc_tf[current-onnx]"'
        )
    from cpc_tf.keras import keras  # TensorFlow, which settings do without

    # TensorFlow with Keras 3 has Keras 2 in another package.
    if format == KERAS3 and not keras.__name__.startswith("tf_keras"):
        raise ConfigError(
            "--format=keras3: needs Keras 3, which comes with TensorFlow 2.16 and later; set up the current "
            "environment: make setup ENVIRONMENT=current"
        )
