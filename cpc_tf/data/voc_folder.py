"""`voc:PATH`: any folder in VOC's layout: JPEGImages, Annotations, ImageSets/Main."""

from __future__ import annotations

import dataclasses

import numpy as np
import tensorflow as tf
from absl import logging

from cpc_tf.data import boxes as box
from cpc_tf.data import folder_check, folder_tree, levels, voc_layout, voc_xml, walk
from cpc_tf.data.config import DataConfig
from cpc_tf.data.decode import Levels, image_size
from cpc_tf.data.folder import FolderSource
from cpc_tf.data.source import NO_LABEL, DetectionSource, Select, SplitError
from cpc_tf.data.voc_layout import stem
from cpc_tf.files import reason
from cpc_tf.settings import ConfigError
from cpc_tf.texts import escaped, listed

_IMAGES, _ANNOTATIONS = "JPEGImages", "Annotations"
_MOST_LEFT_OUT = 0.01  # of a split's images; above, the data are not what their owner believes


class VocFolder(DetectionSource):
    """Images of a folder and their objects, shuffled over the whole list. See `DetectionSource`."""

    def __init__(
        self,
        root: str,
        files: folder_check.Checked,
        objects: dict[str, tf.RaggedTensor],
        class_names: tuple[str, ...],
        levels: Levels | None = None,
    ):
        """Args: the folder of the images, its files, their objects (see `_objects`), names of the labels."""
        self.num_examples = len(files.names)
        self.class_names, self.levels = class_names, levels
        # The label of a file is its index in the list, by which its objects are found.
        self._files = FolderSource(root, files, list(range(len(files.names))), ())
        self._objects = {"name": tf.constant([stem(file) for file in files.names]), **objects}

    def stream(self, seed: int, start: int = 0, select: Select = None) -> tf.data.Dataset:
        return self._with_objects(self._files.stream(seed, start, select))

    def ordered(self) -> tf.data.Dataset:
        return self._with_objects(self._files.ordered())

    def changed(self) -> list[str]:
        return self._files.changed()

    def _with_objects(self, examples):
        def add(example):
            index = example.pop("label")
            return {**example, **{name: of_all[index] for name, of_all in self._objects.items()}}

        return examples.map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def open_voc_folder(
    path: str,
    split: str,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
) -> VocFolder:
    """The images of a split and their objects.

    The splits are the lists ImageSets/Main/SPLIT.txt, without those of one class (`cat_train.txt`); without any list
    there is only `train`, all images. The classes are the names found in all annotations, sorted. Boxes are cut off at
    the border of the image itself, whatever size the annotation gives; those without area or numbers are left out with
    a warning. So are images without a file or a readable annotation, or with broken or too many pixels; more
    than 1 % of them is an error.

    Args:
      path: the folder, local or e.g. gs://.
      split: name of a list.
      cache_dir: where the outcome of decoding each file once is kept; empty: `cache.folder()`.
      max_megapixels: of an image; others are left out before they fill the memory.
      sixteen_bit: how pictures of more than 8 bits are decoded, see `levels`.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, no boxes, too many unusable images.
    """
    folder = _read(path)
    names = _usable(folder.named(split), folder.trouble, folder.dataset)
    files = folder.sound(names, cache_dir, max_megapixels)
    levels = folder.levels(files, sixteen_bit, cache_dir, max_megapixels)
    found = [folder.annotations[stem(file)] for file in files.names]
    objects = _objects(folder.root, files.names, found, folder.class_names)
    if not len(objects["labels"].flat_values):
        raise SplitError(split, f"no boxes in it, in {folder.dataset}")
    return VocFolder(folder.pictures, files, objects, folder.class_names, levels)


def open_voc_images(
    path: str,
    split: str,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
) -> FolderSource:
    """The images of a split without labels, to pre-train on; annotations need not be there. See `open_voc_folder`.

    Lists of one class are left out where annotations say the names of the classes; without, they are splits as others.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, too many unusable images.
    """
    folder = _read(path, annotated=False)
    names = _usable(folder.named(split), folder.without_file, folder.dataset)
    files = folder.sound(names, cache_dir, max_megapixels)
    levels = folder.levels(files, sixteen_bit, cache_dir, max_megapixels)
    return FolderSource(folder.pictures, files, [NO_LABEL] * len(files.names), (), levels)


@dataclasses.dataclass(frozen=True)
class _Folder:
    """What lies in a folder of VOC's layout: {stem: file}, {stem: annotation or why there is none}, {split: list}."""

    path: str
    root: str
    images: dict[str, str]
    annotations: dict[str, voc_xml.Annotation | str]
    class_names: tuple[str, ...]
    splits: dict[str, str | None]

    @property
    def dataset(self) -> str:
        return f"--dataset=voc:{escaped(self.path)}"

    @property
    def pictures(self) -> str:
        return f"{self.root}/{_IMAGES}"

    def named(self, split: str) -> list[str]:
        """The stems of a split's images. Raises SplitError if there are none."""
        found = folder_tree.find(split, self.splits)
        if found is None:
            raise SplitError(split, f"voc:{self.path} has {listed(sorted(self.splits))}")
        path = self.splits[found]
        names = voc_layout.read_list(path) if path else sorted(self.images)
        if not names:
            raise SplitError(split, f"no image of voc:{self.path} is in it")
        return names

    def without_file(self, name: str) -> str | None:
        return None if name in self.images else f"no such file in {_IMAGES}"

    def trouble(self, name: str) -> str | None:
        """Why an image cannot be used with its objects."""
        found = self.annotations.get(name, "no annotation")
        return self.without_file(name) or (found if isinstance(found, str) else None)

    def sound(self, names: list[str], cache_dir: str, max_megapixels: float) -> folder_check.Checked:
        """Those of the images that can be decoded."""
        files = [self.images[name] for name in names]
        return folder_check.sound(self.pictures, files, cache_dir, f"voc:{self.path}", max_megapixels)

    def levels(self, split: folder_check.Checked, rule: str, cache_dir: str, max_megapixels: float) -> Levels | None:
        """How pictures of more than 8 bits are decoded, the same for all splits."""
        names, dataset = sorted(self.images.values()), f"voc:{self.path}"
        return levels.of_folder(rule, dataset, self.pictures, names, split, cache_dir, max_megapixels)


def _read(path: str, annotated: bool = True) -> _Folder:
    root = walk.folder_of(f"voc:{path}")
    for folder in (_IMAGES, _ANNOTATIONS) if annotated else (_IMAGES,):
        if not tf.io.gfile.isdir(f"{root}/{folder}"):
            raise ConfigError(
                f"--dataset=voc:{escaped(path)}: no folder {folder} in it; PATH is e.g. VOCdevkit/VOC2007"
            )
    # Of two files of one name, the first: .jpg before .png.
    images = {stem(file): file for file in reversed(folder_tree.images(f"{root}/{_IMAGES}"))}
    there = tf.io.gfile.isdir(f"{root}/{_ANNOTATIONS}")
    annotations = voc_layout.annotations(f"{root}/{_ANNOTATIONS}") if there else {}
    readable = [a for a in annotations.values() if not isinstance(a, str)]
    class_names = tuple(sorted({name for a in readable for name in a.names if name}))
    splits = voc_layout.splits(root, class_names) or {"train": None}
    return _Folder(path, root, images, annotations, class_names, splits)


def _usable(names, trouble, dataset):
    """The names without trouble; the others are named in a warning, or an error if they are too many."""
    troubles = {name: why for name in names if (why := trouble(name))}
    if not troubles:
        return names
    named = listed([f"{name} ({why})" for name, why in troubles.items()])
    share = f"{len(troubles)} of {len(names)} images ({100 * len(troubles) / len(names):.3g} %) cannot be used"
    if len(troubles) > _MOST_LEFT_OUT * len(names):
        raise ConfigError(f"{dataset}: {share}, more than 1 %; remove them from the list or repair them: {named}")
    logging.warning("%s: %s and are left out: %s", dataset, share, named)
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
        names = list(dict.fromkeys(files[index] for index in indices))
        logging.warning(f"%s: {message}", root, len(indices), total, listed(names))


def _sizes(folder, files):
    """(height, width) of each image, int32 [images, 2]."""

    def size(name):
        return image_size(tf.io.read_file(tf.strings.join([folder, name], "/")))

    sizes = tf.data.Dataset.from_tensor_slices(files).map(size, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    try:
        return np.stack(list(sizes.as_numpy_iterator()))
    except tf.errors.OpError as error:
        raise ConfigError(f"{folder}: changed while it was read: {reason(error)}") from error
