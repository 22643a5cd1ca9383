"""`voc:PATH`: a folder of pictures with boxes in VOC's XML. Its layouts: `voc_layout`."""

from __future__ import annotations

import dataclasses

import tensorflow as tf
from absl import logging

from cpc_tf.data.config import DataConfig
from cpc_tf.data.decoding.decode import Levels
from cpc_tf.data.sources import folder_check, folder_tree, levels, voc_layout, voc_objects, voc_xml, walk
from cpc_tf.data.sources.folder import FolderSource
from cpc_tf.data.sources.source import NO_LABEL, About, DetectionSource, Select, SplitError
from cpc_tf.settings import ConfigError
from cpc_tf.texts import escaped, listed

_NO_ANNOTATION = "no annotation"
_MOST_LEFT_OUT = 0.01  # of a split's images; above, the data are not what their owner believes


class VocFolder(DetectionSource):
    """Images of a folder and their objects, shuffled over the whole list. See `DetectionSource`."""

    def __init__(
        self,
        root: str,
        files: folder_check.Checked,
        keys: list[str],
        objects: dict[str, tf.RaggedTensor],
        class_names: tuple[str, ...],
        levels: Levels | None = None,
    ):
        """Args: the folder, its files, their keys, their objects (see `voc_objects.read`), names of the labels."""
        self.num_examples = len(files.names)
        self.class_names, self.levels = class_names, levels
        # The label of a file is its index in the list, by which its objects are found.
        self._files = FolderSource(root, files, list(range(len(files.names))), ())
        self._objects = {"name": tf.constant(keys), **objects}

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
    top_folders: str = DataConfig.top_folders,
    negatives_without_xml: bool = False,
) -> VocFolder:
    """The images of a split and their objects.

    The splits are the lists ImageSets/Main/SPLIT.txt, without those of one class (`cat_train.txt`); without any list,
    the folders called train, valid and test; without these there is only `train`, all images. The classes are the
    names found in all annotations, sorted. An image without objects is a negative; a warning says how many there are.

    Boxes are places in the image as it is decoded, turned as EXIF says. If the size in the annotation fits only the
    image as it is stored, its boxes are turned with it. They are cut off at the border of the image itself, whatever
    size the annotation gives; those without area or numbers are left out with a warning. So are images without a file
    or a readable annotation, or with broken or too many pixels; more than 1 % of them is an error.

    Args:
      path: the folder, local or e.g. gs://.
      split: its name.
      cache_dir: where the outcome of decoding each file once is kept; empty: `cache.folder()`.
      max_megapixels: of an image; others are left out before they fill the memory.
      sixteen_bit: how pictures of more than 8 bits are decoded, see `levels`.
      top_folders: whether the folders at the top are splits, see `folder_tree.splits`.
      negatives_without_xml: take images without an annotation for images without objects.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, no boxes, too many unusable images.
    """
    folder = _read(path, top_folders)
    if not folder.images.keys() & folder.annotations.keys():
        problem = f"none of its {len(folder.images)} pictures has an XML file of its name"
        raise ConfigError(f"{folder.dataset}: {problem}; {voc_layout.KNOWN}")
    _warn_of_names(folder)
    if negatives_without_xml:
        absent = dict.fromkeys(folder.images, voc_xml.NO_OBJECTS)
        folder = dataclasses.replace(folder, annotations={**absent, **folder.annotations})
    usable = _usable(folder.named(split), folder.trouble, folder.dataset)
    kept, files = folder.sound(usable, cache_dir, max_megapixels)
    levels = folder.levels(files, sixteen_bit, cache_dir, max_megapixels)
    objects = voc_objects.read(folder.root, files.names, [folder.annotations[key] for key in kept], folder.class_names)
    counts = objects["labels"].row_lengths().numpy()
    if not counts.any():
        raise SplitError(split, f"no boxes in it, in {folder.dataset}")
    negatives = [file for file, count in zip(files.names, counts) if not count]
    absent = sum(folder.annotations[key] is voc_xml.NO_OBJECTS for key in kept)
    message = f"%d of %d images have no objects, {absent} of them no annotation: %s"
    voc_objects.report(folder.root, message, negatives, len(kept))
    source = VocFolder(folder.root, files, kept, objects, folder.class_names, levels)
    source.about = folder.about(split)
    return source


def open_voc_images(
    path: str,
    split: str,
    cache_dir: str = "",
    max_megapixels: float = DataConfig.max_megapixels,
    sixteen_bit: str = DataConfig.sixteen_bit,
    top_folders: str = DataConfig.top_folders,
) -> FolderSource:
    """The images of a split without labels, to pre-train on; annotations need not be there. See `open_voc_folder`.

    Lists of one class are left out where annotations say the names of the classes; without, they are splits as others.

    Raises:
      ConfigError: another layout, parts that cannot be read, no such split, too many unusable images.
    """
    folder = _read(path, top_folders)
    usable = _usable(folder.named(split), folder.without_file, folder.dataset)
    _, files = folder.sound(usable, cache_dir, max_megapixels)
    levels = folder.levels(files, sixteen_bit, cache_dir, max_megapixels)
    source = FolderSource(folder.root, files, [NO_LABEL] * len(files.names), (), levels)
    source.about = folder.about(split)
    return source


@dataclasses.dataclass(frozen=True)
class _Folder:
    """A folder with VOC's XML. Images and annotations have the same keys, see `voc_layout.key`."""

    path: str
    root: str
    images: dict[str, str]  # {key: file}
    annotations: dict[str, voc_xml.Annotation | str]  # {key: annotation or why it cannot be read}
    class_names: tuple[str, ...]
    lists: dict[str, str]  # {split: path of its list}
    parts: dict[str, list[str]]  # {split: keys}, if there are no lists

    @property
    def dataset(self) -> str:
        return f"--dataset=voc:{escaped(self.path)}"

    def named(self, split: str) -> list[str]:
        """The keys of a split's images. Raises SplitError if there are none."""
        splits = self.lists or self.parts
        found = folder_tree.find(split, splits)
        if found is None:
            hint = "" if len(splits) > 1 or self.lists else f", all its images; {voc_layout.KNOWN}"
            raise SplitError(split, f"voc:{self.path} has {listed(sorted(splits))}{hint}")
        keys = voc_layout.read_list(self.lists[found], self.images) if self.lists else self.parts[found]
        if not keys:
            raise SplitError(split, f"no image of voc:{self.path} is in it")
        return keys

    def about(self, split: str) -> About:
        """What a user should hear of a split; lists share images, so that other lists are not left out."""
        splits = self.lists or self.parts
        counts = {} if self.lists else {name: len(keys) for name, keys in self.parts.items()}
        return About(folder_tree.find(split, splits) or "", counts)

    def without_file(self, key: str) -> str | None:
        return None if key in self.images else "no such picture"

    def trouble(self, key: str) -> str | None:
        """Why an image cannot be used with its objects."""
        found = self.annotations.get(key, _NO_ANNOTATION)
        return self.without_file(key) or (found if isinstance(found, str) else None)

    def sound(self, keys: list[str], cache_dir: str, max_megapixels: float) -> tuple[list[str], folder_check.Checked]:
        """Those of the images that can be decoded, and their files."""
        key_of = {self.images[key]: key for key in keys}
        files = folder_check.sound(self.root, list(key_of), cache_dir, f"voc:{self.path}", max_megapixels)
        return [key_of[file] for file in files.names], files

    def levels(self, split: folder_check.Checked, rule: str, cache_dir: str, max_megapixels: float) -> Levels | None:
        """How pictures of more than 8 bits are decoded, the same for all splits."""
        names, dataset = sorted(self.images.values()), f"voc:{self.path}"
        return levels.of_folder(rule, dataset, self.root, names, split, cache_dir, max_megapixels)


def _read(path: str, top_folders: str) -> _Folder:
    root = walk.folder_of(f"voc:{path}")
    images, annotations = voc_layout.pictures(root), voc_layout.annotations(root)
    readable = [a for a in annotations.values() if not isinstance(a, str)]
    class_names = tuple(sorted({name for a in readable for name in a.names if name}))
    if not images:
        raise ConfigError(f"--dataset=voc:{escaped(path)}: no pictures in it; {voc_layout.KNOWN}")
    lists = voc_layout.lists(root, class_names, images.values())
    parts = {} if lists else folder_tree.splits(sorted(images), f"voc:{path}", top_folders)
    used = {key for keys in parts.values() for key in keys}
    beside = [images[key] for key in images if parts and key not in used]
    voc_objects.report(
        root, "%d of %d images are beside the folders of the splits and are left out: %s", beside, len(images)
    )
    return _Folder(path, root, images, annotations, class_names, lists, parts)


def _warn_of_names(folder):
    """Warns of annotations that belong to no image, or that say they belong to another one."""
    root, images, annotations = folder.root, folder.images, folder.annotations
    alone = [key for key in annotations if key not in images]
    voc_objects.report(
        root, "%d of %d annotations have the name of no image and are left out: %s", alone, len(annotations)
    )
    told = {
        key: "/".join([*key.split("/")[:-1], voc_layout.key(annotation.filename)])
        for key, annotation in annotations.items()
        if key in images and not isinstance(annotation, str)
    }
    other = [key for key, name in told.items() if name != key and name in images]
    message = "%d of %d annotations have the <filename> of another image; their own names count: %s"
    voc_objects.report(root, message, other, len(annotations))


def _usable(keys, trouble, dataset):
    """The keys without trouble; the others are named in a warning, or an error if they are too many."""
    troubles = {key: why for key in keys if (why := trouble(key))}
    if not troubles:
        return keys
    named = listed([f"{key} ({why})" for key, why in troubles.items()])
    share = f"{len(troubles)} of {len(keys)} images ({100 * len(troubles) / len(keys):.3g} %) cannot be used"
    remedy = "remove them from the list or repair them"
    if _NO_ANNOTATION in troubles.values():
        remedy += ", or take those with no annotation for images without objects by --negatives_without_xml"
    if len(troubles) > _MOST_LEFT_OUT * len(keys):
        raise ConfigError(f"{dataset}: {share}, more than 1 %; {remedy}: {named}")
    logging.warning("%s: %s and are left out; %s: %s", dataset, share, remedy, named)
    return [key for key in keys if key not in troubles]
