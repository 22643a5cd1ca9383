"""encoder.json, the card of a module of `cpc-tf export` (its network and its training), and what
--encoder names.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from cpc_tf.core.settings import ConfigError, Settings, flatten, parted_names
from cpc_tf.core.texts import shown, wrong_text
from cpc_tf.data.config import GeometryConfig
from cpc_tf.encoders.config import LABELS, PIXELS, UNKNOWN, EncoderConfig
from cpc_tf.encoders.networks import KERAS, KERAS_HUB, NETWORKS, check_network
from cpc_tf.encoders.released import NAMES, directory_of


@dataclasses.dataclass(frozen=True)
class Identity:
    """Identifies an encoder in results and reports; unknown values are '' or None."""

    # Name of an objective ('cpc', ...), 'labels' (supervised from the start), 'cpc+labels'
    # (pre-trained, then fine-tuned), 'untrained', 'pixels' (no encoder), or 'unknown' (a module
    # that this project did not write).
    trained_by: str
    architecture: str = ""
    dataset: str = ""  # that it was last trained on
    seed: int | None = None  # of its training, or of its weights if untrained
    parameters: int | None = None  # number of trainable ones
    module: str = ""  # handle or last path component of the TF-Hub module, if it comes from one
    began_with: str = ""  # the module that its pre-training began with, likewise
    steps: int | None = None  # of its training, if it comes from a module
    method: str = ""  # how the pre-training is called, 'CPC v1'; see `ObjectiveSettings.method`
    rung: str = ""  # the step of a ladder that the pre-training is, --rung

    def to_json(self) -> dict[str, Any]:
        """The value of 'identity' in a result.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Identity:
        """Inverse of `to_json`; ignores unknown keys, of a later version."""
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})


def module_name(module: str) -> str:
    """A module's handle, or the last component of its path: results name no folders of this
    machine.

    The last but one belongs to it if the last is a version, as in 'bigbigan-resnet50/1'.
    """
    if "://" in module and not module.startswith("gs://"):
        return module
    *_, folder, name = ("", *module.rstrip("/").split("/"))
    return f"{folder}/{name}" if name.isdigit() and folder else name


FILE = "encoder.json"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not wrong_text(value)


def _is_range(value: Any) -> bool:
    """Whether a value is a list of two finite numbers, the smaller one first."""
    if not isinstance(value, list) or len(value) != 2:
        return False
    return all(type(x) in (int, float) and math.isfinite(x) for x in value) and value[0] < value[1]


# Key -> whether a value is valid.
_RULES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        (
            "module",
            "objective",
            "method",
            "rung",
            "dataset",
            "augment",
            "augment_changes",
            "run",
            "weights",
            "phase",
        ),
        _is_text,
    ),
    **dict.fromkeys(
        ("seed", "step", "num_train_labels", "parameters"),
        lambda value: type(value) is int and 0 <= value < 2**63,
    ),
    "feature_dim": lambda value: type(value) is int and 0 < value < 2**63,
    "label_fraction": lambda value: type(value) in (int, float) and 0 <= value <= 1,
    "encoder": lambda value: isinstance(value, dict),
    "geometry": lambda value: isinstance(value, dict),
    "versions": (
        lambda value: isinstance(value, dict)
        and all(map(_is_text, [*value.keys(), *value.values()]))
    ),
    "levels": lambda value: value is None or _is_range(value),
    "began_as": lambda value: value is None or isinstance(value, dict),
}


@dataclasses.dataclass(frozen=True)
class Training:
    """How an encoder was trained: a run, and what that run began with. Unknown values are None."""

    module: str | None = None  # name of the module that holds these values
    objective: str | None = None  # by which it was pre-trained; None if it learned from labels
    method: str | None = None  # see `Identity`
    rung: str | None = None
    dataset: str | None = None  # that it learned from
    augment: str | None = (
        None  # the policy of the augmentation, and its changes: the flags of these names
    )
    augment_changes: str | None = None
    seed: int | None = None
    run: str | None = None  # name of its directory
    step: int | None = None  # of the checkpoint
    weights: str | None = None  # 'averaged' or 'raw'
    # Of a run on labels alone:
    phase: str | None = None
    num_train_labels: int | None = None
    label_fraction: float | None = None
    began_as: Training | None = None  # of the module that the run began with; None: random weights

    @property
    def on_labels(self) -> bool:
        """Whether the last run learned from labels."""
        return self.num_train_labels is not None

    @property
    def trained_by(self) -> str:
        """See `Identity`."""
        if self._first.on_labels:
            return LABELS
        return f"{self._first.objective}+{LABELS}" if self.on_labels else self._first.objective

    @property
    def pretraining(self) -> tuple[str, str]:
        """Method and rung of the pre-training; see `Identity`."""
        return self._first.method or "", self._first.rung or ""

    @property
    def began_with(self) -> str:
        """See `Identity`."""
        before = self._first.began_as
        return (before.module or "") if before else ""

    @property
    def lineage(self) -> list[Training]:
        """The runs that these values went through, from the first one on."""
        return [*(self.began_as.lineage if self.began_as else []), self]

    @property
    def _first(self) -> Training:
        """The pre-training that the runs on labels began with; without one, the first of these
        runs.
        """
        first = self
        while first.on_labels and first.began_as:
            first = first.began_as
        return first

    def to_json(self) -> dict[str, Any]:
        """Its keys in encoder.json. A run on labels has 'began_as' even if it began with random
        weights.
        """
        values = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "began_as"
        }
        present = {name: value for name, value in values.items() if value is not None}
        if self.on_labels or self.began_as:
            present["began_as"] = self.began_as.to_json() if self.began_as else None
        return present

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Training:
        """Inverse of `to_json`. Raises ConfigError that begins with the key that is wrong."""
        for name, value in values.items():
            if name not in _RULES:
                raise ConfigError(f"unknown key {_shown(name)}")
            if not _RULES[name](value):
                raise ConfigError(f"'{name}' is {_shown(value)}")
        needed = "label_fraction" if "num_train_labels" in values else "objective"
        if needed not in values:
            raise ConfigError(f"the key '{needed}' is missing")
        arguments = {field.name: values.get(field.name) for field in dataclasses.fields(cls)}
        before = arguments.pop("began_as")
        return cls(**arguments, began_as=None if before is None else cls.from_json(before))


@dataclasses.dataclass(frozen=True)
class EncoderCard:
    """The content of encoder.json."""

    encoder: EncoderConfig
    geometry: GeometryConfig  # of the patches
    training: Training = Training()
    feature_dim: int | None = None
    parameters: int | None = None  # number of trainable ones
    # of the libraries that wrote the module
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    levels: tuple[float, float] | None = (
        None  # the values that became 0 and 255 in images of more than 8 bits
    )

    def identity(self, module: str) -> Identity:
        """The identity, for results, of an encoder from this module."""
        method, rung = self.training.pretraining
        return Identity(
            trained_by=self.training.trained_by,
            architecture=self.encoder.encoder,
            dataset=self.training.dataset or "",
            seed=self.training.seed,
            parameters=self.parameters,
            module=module_name(module),
            began_with=self.training.began_with,
            steps=self.training.step,
            method=method,
            rung=rung,
        )

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "encoder": flatten(self.encoder),
            "geometry": flatten(self.geometry),
            "feature_dim": self.feature_dim,
            "parameters": self.parameters,
            "levels": list(self.levels) if self.levels else None,
            **self.training.to_json(),
            "versions": self.versions,
        }

    @classmethod
    def from_json(cls, values: Any) -> EncoderCard:
        """Inverse of `to_json`. Raises ConfigError that begins with the key that is wrong."""
        if not isinstance(values, dict):
            raise ConfigError("not an object with keys")
        for name in ("encoder", "geometry"):
            if name not in values:
                raise ConfigError(f"the key '{name}' is missing")
        training = Training.from_json(values)  # checks all keys
        optional = {
            name: values[name]
            for name in ("feature_dim", "parameters", "versions")
            if name in values
        }
        if values.get("levels"):
            optional["levels"] = tuple(values["levels"])
        encoder = _settings(EncoderConfig, values, "encoder")
        geometry = _settings(GeometryConfig, values, "geometry")
        return cls(encoder, geometry, training, **optional)


def find_card(module: str) -> EncoderCard | None:
    """The card of a module by directory; None if it is not ours.

    Raises:
      ConfigError: there is no such directory, or the file is damaged.
    """
    path = os.path.join(module, FILE)
    if "://" not in module and not tf.io.gfile.exists(module):
        raise ConfigError(
            "encoder", shown(module), f"there is no such directory; released modules: {NAMES}"
        )
    # Handles of the web are no files.
    if ("://" in module and not module.startswith("gs://")) or not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            return EncoderCard.from_json(json.loads(file.read()))
    except tf.errors.OpError as error:
        raise ConfigError(
            "encoder", shown(module), f"its {FILE} cannot be read ({error.message})"
        ) from error
    # JSONDecodeError, UnicodeDecodeError and ConfigError are ValueErrors; too many brackets raise
    # RecursionError.
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            "encoder",
            shown(module),
            f"its {FILE} is damaged: {' '.join(str(error).split())}; export the module again",
        ) from error


def read_card(module: str, otherwise: str = "") -> EncoderCard:
    """The card of one of our modules. Raises ConfigError, which ends with `otherwise`, if it has
    none.
    """
    card = find_card(module)
    if card is None:
        reason = f"no {FILE} in it, so `cpc-tf export` did not write this module"
        raise ConfigError("encoder", module, reason + (f"; {otherwise}" if otherwise else ""))
    return card


def _shown(value: Any) -> str:
    return shown(json.dumps(value))


def _settings(settings_class: type[Settings], values: dict[str, Any], key: str) -> Any:
    """The settings under a key."""
    fields = {field.name: field for field in dataclasses.fields(settings_class)}
    for name, value in values[key].items():
        if name not in fields:
            raise ConfigError(f"'{key}' has a '{shown(name)}', which this version does not know")
        if type(value) is not fields[name].type:
            raise ConfigError(f"'{key}': '{name}' is {_shown(value)}")
    try:
        return settings_class(**values[key])
    except ConfigError as error:
        raise ConfigError(f"'{key}': {error}") from error


# Of ImageNet's training images, in the order red, green, blue: the constants of keras.applications.
_MEAN = (0.485, 0.456, 0.406)
_DEVIATION = (0.229, 0.224, 0.225)
_CAFFE_MEAN = (103.939, 116.779, 123.68)  # blue, green, red; of pixels in [0, 255]

UNIT = "0..1"
# Range of pixels, which is written before a third-party module as in --encoder=-1..1:MODULE ->
# images float32 [B, H, W, 3] in [0, 1] to what the module takes. Ours take [0, 1], as TF-Hub's
# modules of images do. 'torch' and 'caffe' are the modes of
# keras.applications.imagenet_utils.preprocess_input.
RANGES: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    UNIT: lambda images: images,
    "-1..1": lambda images: 2.0 * images - 1.0,
    "0..255": lambda images: 255.0 * images,
    "torch": lambda images: (images - _MEAN) / _DEVIATION,
    "caffe": lambda images: 255.0 * images[..., ::-1] - _CAFFE_MEAN,
}

# Kinds of encoders beside PIXELS. Those that end with a colon are prefixes of the value.
MODULE = "module"
NEW = "random"
COPY = "random:"
GRAPH = "graph:"
_OF_RANGES = {f"{name}:": name for name in RANGES}
_KERAS_FILES = (".keras", ".h5", ".hdf5")
_KERAS_WEIGHTS = (".h5", ".hdf5")
# What the weights of Keras Applications learned from.
_IMAGENET = Training(dataset="imagenet2012", num_train_labels=1_281_167, label_fraction=1.0)


def parted(text: str) -> list[str]:
    """Returns the encoders that a value of --encoder names: 'A,B' are two, a path that exists is
    one.
    """
    prefix, _, path = text.rpartition(":")
    if "," not in prefix and os.path.exists(path):
        return [text]
    return [name.strip() for name in parted_names(text)]


def refuse_several(text: str) -> None:
    """Raises ConfigError if a value of --encoder names several encoders."""
    if len(parted(text)) > 1:
        raise ConfigError(
            "encoder",
            shown(text),
            "names several encoders, which only cpc-tf classify, label and embed accept; name one",
        )


@dataclasses.dataclass(frozen=True)
class EncoderName:
    """The value of --encoder.

    Attributes:
      text: as given.
      kind: PIXELS: no encoder; the supervised baseline. NEW: a network of --backbone with new
        weights. COPY: an untrained copy of one of our modules, or of KERAS. MODULE: a TF-Hub
        module; one of ours becomes a network, which computes in --precision. GRAPH: a TF-Hub
        module as its SavedModel, which computes as it was exported. KERAS: a network of Keras
        Applications with its weights.
      module: directory or handle, '' if there is none. A released module, which has a name, gets
        its directory, and a preset of KerasHub that of its SavedModel. Of KERAS the file of the
        weights, '' if they are those of Keras.
      network: of KERAS, or of its copy: its name in NETWORKS.
      pixels: the range of pixels that it takes, a key of RANGES that is written before it; '' if
        none is: [0, 1].
    """

    text: str
    kind: str
    module: str = ""
    pixels: str = ""
    network: str = ""

    @classmethod
    def parse(cls, text: str) -> EncoderName:
        """Parses a value of --encoder. A preset of KerasHub is exported at its first use.

        Raises:
          ConfigError: it is empty, names several encoders, there is no network of that name in
            Keras Applications, it is a Keras file, since building one can run code, or a preset
            that cannot be had.
        """
        if text in (PIXELS, NEW):
            return cls(text, text)
        refuse_several(text)
        if text.startswith(KERAS_HUB):
            from cpc_tf.encoders.keras_hub import directory_of_preset  # few names are presets

            return cls(text, MODULE, directory_of_preset(text.removeprefix(KERAS_HUB)), UNIT)
        before = next(
            (prefix for prefix in (COPY, GRAPH, *_OF_RANGES) if text.startswith(prefix)), ""
        )
        kind = before if before in (COPY, GRAPH) else MODULE
        module = text.removeprefix(before)
        if not module:
            example = f"--encoder={text}runs/photos/small/hub"
            raise ConfigError(f"--encoder={text} is empty: name a TF-Hub module, e.g. {example}")
        if module.startswith(KERAS):
            return cls._of_keras(text, before, module)
        if module.endswith(_KERAS_FILES):
            raise ConfigError(
                "encoder",
                shown(text),
                "Keras files are not read; in the program that made it, model.export('DIRECTORY')"
                " writes a SavedModel: --encoder=DIRECTORY --signature=serving_default",
            )
        return cls(text, kind, directory_of(module), _OF_RANGES.get(before, ""))

    @classmethod
    def _of_keras(cls, text: str, before: str, module: str) -> EncoderName:
        """Parses 'keras:NAME' or 'keras:NAME:FILE', which may have 'random:' before it."""
        name, _, file = module.removeprefix(KERAS).partition(":")
        check_network(KERAS + name, "encoder", text)
        if before in _OF_RANGES:
            raise ConfigError(
                "encoder", shown(text), f"the range of keras:{name} is known; leave out {before}"
            )
        if before == GRAPH or (before == COPY and file):
            excess = before if before == GRAPH else f":{file}"
            raise ConfigError(
                "encoder", shown(text), f"keras:{name} is built from its name; leave out {excess}"
            )
        file = os.path.expanduser(file)
        if file and not file.endswith(_KERAS_WEIGHTS):
            raise ConfigError(
                "encoder",
                shown(text),
                "the file must end with .h5, as model.save_weights('NAME.weights.h5') writes it",
            )
        if file and not os.path.isfile(file):
            raise ConfigError("encoder", shown(text), "there is no such file of weights")
        return cls(text, before or KERAS, file, network=KERAS + name)

    @property
    def title(self) -> str:
        """The module for results: see `module_name`."""
        if not self.network:
            return module_name(self.module)
        return ":".join(filter(None, [self.network, os.path.basename(self.module)]))

    @property
    def is_new(self) -> bool:
        """Whether it starts with random weights."""
        return self.kind in (PIXELS, NEW, COPY)

    def card(self, otherwise: str = "") -> EncoderCard:
        """Returns the card of its module; see `read_card`."""
        return self._keras_card() if self.network else read_card(self.module, otherwise)

    def find_card(self, image_size: int = 0) -> EncoderCard | None:
        """Returns the card of its module, or None if it has none; see `find_card`.

        A network of Keras gets one, of images of `image_size` px; 0: of its own size.
        """
        if self.network:
            return self._keras_card(image_size)
        if self.kind == COPY:
            return self.card("--encoder=random --backbone=NAME is a new network")
        return find_card(self.module) if self.module else None

    def _keras_card(self, image_size: int = 0) -> EncoderCard:
        """Returns the card of a network of Keras, which sees whole images."""
        side = image_size or NETWORKS[self.network].side
        geometry = GeometryConfig(resize=side, image_size=side, patch_size=side, patch_stride=side)
        training = Training(objective=UNKNOWN) if self.module else _IMAGENET
        return EncoderCard(EncoderConfig(encoder=self.network), geometry, training)
