"""What a Keras model file is made of, checked before Keras builds it.

Keras 2 runs the code that a file holds (a `Lambda` in HDF5), imports the modules that it names, and reads other files
that it names for weights or vocabularies. So only parts are built that are known to do none of this.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import h5py

from cpc_tf.keras import keras
from cpc_tf.texts import shown

# Layers of Keras that hold code (the first), call what is in another file, or read a vocabulary from one.
_REFUSED = {"Lambda", "TFSMLayer", "TextVectorization", "StringLookup", "IntegerLookup"}
_OTHERS = {"Functional", "Model", "Sequential", "Policy"}  # the last: a dtype policy
_OTHERS |= {"LayerScale", "StochasticDepth"}  # of keras.applications.convnext
# Values that JSON has no notation for.
_VALUES = {"__bytes__", "__ellipsis__", "__keras_tensor__", "__numpy__", "__slice__", "__tensor__", "__tuple__"}
_VALUES |= {"TensorShape"}
# Calls of TensorFlow's functions on layers. Others than these could read and write files.
_CALLS = {"TFOpLambda", "SlicingOpLambda"}
_FUNCTIONS = re.compile(
    r"(compat\.v1\.)?((math|nn|__operators__|linalg|image)\.\w+|cast|clip_by_value|concat|convert_to_tensor|expand_dims|"
    r"gather|identity|maximum|minimum|ones_like|pad|repeat|reshape|reverse|shape|split|squeeze|stack|stop_gradient|"
    r"strided_slice|tile|transpose|unstack|where|zeros_like)"
)
_LIBRARIES = ("keras", "tf_keras", "builtins")  # modules that classes may come from
_FEW_BYTES, _EXPANSION = 2**28, 100  # what a file may hold anyway, and how many times its own size


class Refused(Exception):
    """Something that is not built; the message goes on after the name of the file."""


def checked(config: Any) -> Any:
    """Returns the configuration of a model without what concerns its training, which is not used here.

    Args:
      config: as `json.loads` gives it: dictionaries with a 'class_name' are the parts, at any depth.

    Raises:
      Refused: a part is not known to run no code.
    """
    if isinstance(config, list):
        return [checked(each) for each in config]
    if not isinstance(config, dict):
        return config
    if "class_name" in config:
        _check_part(config)
        config = {name: value for name, value in config.items() if name != "compile_config"}
    return {name: checked(value) for name, value in config.items()}


def _check_part(part: dict[str, Any]) -> None:
    name, module, registered = part["class_name"], part.get("module"), part.get("registered_name")
    values = part.get("config")
    own = shown(values["name"]) if isinstance(values, dict) and "name" in values else ""
    which = f"its part {own}" if own else "a part of it"
    if name == "Lambda" or name == "__lambda__":
        raise Refused(f"{which} is a Lambda, code of its author, which is not run")
    known = isinstance(name, str) and re.sub(r"V[12]$", "", name) in _known()
    foreign = ">" in f"{registered or ''}" or f"{module or 'keras'}".partition(".")[0] not in _LIBRARIES
    if name == "function":
        known = isinstance(values, str) and values in _activations()
    if foreign or not known:
        said = registered if foreign and registered else f"{module}.{name}" if foreign else name
        raise Refused(f"{which} is {shown(said)}, which is not among the layers of Keras that are known to run no code")
    if name in _CALLS:
        function = values.get("function") if isinstance(values, dict) else None
        if not _FUNCTIONS.fullmatch(f"{function}"):
            raise Refused(f"{which} calls {shown(function)}, which is not among the functions that touch no files")


@functools.cache
def _known() -> set[str]:
    """The names of the classes that may be built."""
    places = keras.layers, keras.layers.experimental, keras.initializers, keras.regularizers, keras.constraints
    named = {name for place in places for name, value in vars(place).items() if isinstance(value, type)}
    return named - _REFUSED | _OTHERS | _VALUES | _CALLS


@functools.cache
def _activations() -> set[str]:
    return {name for name, value in vars(keras.activations).items() if callable(value)} - {"deserialize", "get"}


def check_hdf5(file: h5py.File, size: int) -> None:
    """Raises Refused if an HDF5 file of `size` bytes reads other files, or says that it holds far more."""
    seen, waiting, total = set(), [file["/"]], 0
    while waiting:
        group = waiting.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise Refused(f"its {shown(name)} lies in another file, {shown(link.filename)}, which is not read")
            if not isinstance(link, h5py.HardLink):
                continue  # to something in this file, which has a hard link as well
            item = group[name]
            place = h5py.h5o.get_info(item.id).addr
            if place in seen:  # a group may hold itself
                continue
            seen.add(place)
            if isinstance(item, h5py.Group):
                waiting.append(item)
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise Refused(f"the values of its {shown(name)} lie in another file, which is not read")
                total += item.size * item.dtype.itemsize if item.size else 0
    check_size(total, size)


def check_size(held: int, size: int) -> None:
    """Raises Refused if a file of `size` bytes says that it holds far more."""
    if held > max(_FEW_BYTES, _EXPANSION * size):
        raise Refused(f"says that it holds {held / 1e9:.1f} GB, and has {size / 1e6:.1f} MB; it is damaged")
