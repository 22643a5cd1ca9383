"""`voc:PATH`: any folder in VOC's layout: JPEGImages, Annotations, ImageSets/Main."""

from __future__ import annotations

import concurrent.futures
import os

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data import boxes as box
from cpc_tf.data import folder_check, folder_tree, voc_xml
from cpc_tf.data.decode import image_size
from cpc_tf.data.folder import FolderSource
from cpc_tf.data.source import NO_LABEL, DetectionSource, Select, SplitError
from cpc_tf.settings import ConfigError

_IMAGES, _ANNOTATIONS, _SETS = "JPEGImages", "Annotations", "ImageSets/Main"
_MOST_LEFT_OUT = 0.01  # of a split's images; above, the data are not what their owner believes
_NAMED = 20  # names in a message
_THREADS = 16  # hide the round trips to a bucket


class VocFolder(DetectionSource):
    """Images of a folder and their objects, shuffled over the whole list. See `DetectionSource`."""

    def __init__(self, root: str, files: list[str], objects: dict[str, tf.RaggedTensor], class_names: tuple[str, ...]):
        """Args: the folder of the images, names of its files, their objects (see `_objects`), names of the labels."""
        self.num_examples = len(files)
        self.class_names = class_names
        # The label of a file is its index in the list, by which its objects are found.
        self._files = FolderSource(root, files, list(range(len(files))), ())
        self._objects = {"name": tf.constant([_stem(file) for file in files]), **objects}

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        return self._with_objects(self._files.stream(seed, start, select))

    def ordered(self) -> tf.data.Dataset:
        return self._with_objects(self._files.ordered())

    def _with_objects(self, examples):
        def add(example):
            index = example.pop("label")
            return {**example, **{name: of_all[index] for name, of_all in self._objects.items()}}

        return examples.map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def open_voc_folder(path: str, split: str, cache_dir: str = "") -> VocFolder:
    """The images of a split and their objects.

    The splits are the lists ImageSets/Main/SPLIT.txt, without those of one class (`cat_train.txt`); without any list
    there is only `train`, all images. The classes are the names found in all annotations, sorted. Boxes are cut off at
    the border of the image itself, whatever size the annotation gives; those without area or numbers are left out with
    a warning. So are images without a file or a readable annotation, or with broken pixels; more than 1 % of them is
    an error.

    Args:
      path: the folder, local or e.g. gs://.
      split: name of a list.
      cache_dir: where the outcome of decoding each file once is kept; empty: ~/.cache/cpc_tf.

    Raises:
      ConfigError: another layout, no such split, no boxes, too many unusable images.
    """
    root = os.path.expanduser(path).rstrip("/") or "/"
    dataset = f"--dataset=voc:{path}"
    for folder in (_IMAGES, _ANNOTATIONS):
        if not tf.io.gfile.isdir(f"{root}/{folder}"):
            raise ConfigError(f"{dataset}: no folder {folder} in it; PATH is e.g. VOCdevkit/VOC2007")
    # Of two files of one name, the first: .jpg before .png.
    images = {_stem(file): file for file in reversed(folder_tree.images(f"{root}/{_IMAGES}"))}
    annotations = _annotations(f"{root}/{_ANNOTATIONS}")
    readable = [a for a in annotations.values() if not isinstance(a, str)]
    class_names = tuple(sorted({name for a in readable for name in a.names if name}))

    splits = _splits(f"{root}/{_SETS}", class_names) or {"train": None}
    found = folder_tree.find(split, splits)
    if found is None:
        raise SplitError(split, f"voc:{path} has {', '.join(sorted(splits))}")
    names = _read_list(splits[found]) if splits[found] else sorted(images)
    if not names:
        raise SplitError(split, f"no image of voc:{path} is in it")

    def trouble(name):
        if name not in images:
            return f"no such file in {_IMAGES}"
        found = annotations.get(name, "no annotation")
        return found if isinstance(found, str) else None

    names = _usable(names, trouble, dataset)
    files = folder_check.sound(f"{root}/{_IMAGES}", [images[name] for name in names], cache_dir, f"voc:{path}")
    objects = _objects(root, files, [annotations[_stem(file)] for file in files], class_names)
    if not len(objects["labels"].flat_values):
        raise SplitError(split, f"no boxes in it, in {dataset}")
    return VocFolder(f"{root}/{_IMAGES}", files, objects, class_names)


def _stem(file):
    return os.path.splitext(file)[0]


def _annotations(folder):
    """{name: its annotation, or why it cannot be read} of a folder of XML files."""

    def read(name):
        try:
            with tf.io.gfile.GFile(f"{folder}/{name}", "rb") as file:
                return voc_xml.parse(file.read())
        except ValueError as error:
            return f"broken annotation, {error}"

    files = sorted(name for name in tf.io.gfile.listdir(folder) if name.lower().endswith(".xml"))
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        return {_stem(file): outcome for file, outcome in zip(files, pool.map(read, files))}


def _splits(folder, class_names):
    """{split: its list's path}."""
    if not tf.io.gfile.isdir(folder):
        return {}
    lists = {_stem(file) for file in tf.io.gfile.listdir(folder) if file.endswith(".txt")}
    of_one_class = {f"{name}_{other}" for name in class_names for other in lists}
    return {name: f"{folder}/{name}.txt" for name in lists - of_one_class}


def _read_list(path):
    """The names in a list, each once."""
    with tf.io.gfile.GFile(path, "rb") as file:
        lines = file.read().decode("utf-8-sig", "replace").splitlines()
    return list(dict.fromkeys(line.strip() for line in lines if line.strip()))


def _usable(names, trouble, dataset):
    """The names without trouble; the others are named in a warning, or an error if they are too many."""
    troubles = {name: why for name in names if (why := trouble(name))}
    if not troubles:
        return names
    listed = [f"{name} ({why})" for name, why in troubles.items()]
    listed = ", ".join(listed[:_NAMED]) + (f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else "")
    share = f"{len(troubles)} of {len(names)} images ({100 * len(troubles) / len(names):.3g} %) cannot be used"
    if len(troubles) > _MOST_LEFT_OUT * len(names):
        raise ConfigError(f"{dataset}: {share}, more than 1 %; remove them from the list or repair them: {listed}")
    logging.warning("%s: %s and are left out: %s", dataset, share, listed)
    return [name for name in names if name not in troubles]


def _objects(root, files, annotations, class_names):
    """The sound boxes of these images, their labels, and which are difficult; the others are counted in a warning."""
    counts = np.array([len(a.names) for a in annotations], np.int64)
    owner = np.repeat(np.arange(len(files)), counts)  # [objects], the image of each
    raw = np.array([b for a in annotations for b in a.boxes], np.float32).reshape(-1, 4)
    numbers = {name: label for label, name in enumerate(class_names)}
    labels = np.array([numbers.get(name, NO_LABEL) for a in annotations for name in a.names], np.int64)
    difficult = np.array([d for a in annotations for d in a.difficult], bool)

    sizes = _sizes(f"{root}/{_IMAGES}", files)
    boxes, sound = (tensor.numpy() for tensor in box.from_voc(raw, sizes[owner]))
    _report(root, files, owner[~sound], len(raw), "%d of %d boxes have no area within the image and are left out: %s")
    given = np.array([a.size for a in annotations])
    wrong = np.flatnonzero((given > 0).all(1) & (given != sizes).any(1))
    _report(root, files, wrong, len(files), "%d of %d images have another size than their annotations say: %s")
    found = {"boxes": boxes[sound], "labels": labels[sound], "difficult": difficult[sound]}
    counts = np.bincount(owner[sound], minlength=len(files))
    return {name: tf.RaggedTensor.from_row_lengths(values, counts) for name, values in found.items()}


def _report(root, files, indices, total, message):
    if len(indices):
        listed = list(dict.fromkeys(files[index] for index in indices))
        more = f" and {len(listed) - _NAMED} more files" if len(listed) > _NAMED else ""
        logging.warning(f"%s: {message}", root, len(indices), total, ", ".join(listed[:_NAMED]) + more)


def _sizes(folder, files):
    """(height, width) of each image, int32 [images, 2]."""

    def size(name):
        return image_size(tf.io.read_file(tf.strings.join([folder, name], "/")))

    sizes = tf.data.Dataset.from_tensor_slices(files).map(size, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return np.stack(list(sizes.as_numpy_iterator()))
