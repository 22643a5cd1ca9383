"""Random trees of folders as something to attack."""

from __future__ import annotations

import os
import shutil
from unittest import mock

import numpy as np

from cpc_tf.data.sources import check, voc_folder
from cpc_tf.settings import ConfigError
from tests import samples
from tests.data.samples import encode, open_folder, open_voc_folder, open_voc_images
from tests.faults import mutate
from tests.faults.target import Target, refused

NAMES = (
    *("train", "val", "test", "valid", "Test", "a", "b.jpg", "c.png", "d.xml", "b.xml", "train.txt", "trainval.txt"),
    *("JPEGImages", "Annotations", "ImageSets", "Main", "images", "labels", "SegmentationClass"),
)
# Places of pictures and of their annotations, of sound folders.
LAYOUTS = (
    ("JPEGImages", "Annotations"),
    ("images", "annotations/xmls"),
    ("train", "train"),
    ("train/images", "train/labels"),
    (".", "."),
)
LISTS = (
    b"0\n1\n",
    b"JPEGImages/0.png\r\n./1.png 1\r\nc:\\a\\d.jpg 1,2,3\r\n",
    b"\xef\xbb\xbf/x/images/0.png labels/0.xml\n",
)
ODD = ("caf\udce9.jpg", "\udcff", "x\ny.png", " ", "é.gif", "train.txt", ".hidden", "*[?].bmp", "__MACOSX", "0.xml")


class Folders(Target):
    """open_folder, open_voc_folder and open_voc_images: sources that can be read whole, or ConfigError.

    A case is the seed of a tree with pictures, damaged ones, annotations, links, pipes, and names of all kinds.
    """

    def __init__(self, room):
        super().__init__(room)
        pixels = np.random.default_rng(0).integers(0, 256, [24, 17, 3], dtype=np.uint8)
        samples.write_boxes(room / "sound")
        self.images = [encode(pixels, kind) for kind in ("PNG", "JPEG", "BMP", "GIF")]
        self.texts = [*(path.read_bytes() for path in sorted((room / "sound").glob("Annotations/*"))), *LISTS]

    def case(self, random):
        return random.bytes(8)

    def check(self, data):
        random = np.random.default_rng([*data])
        tree, cache = self.room / "tree", self.room / "cache"
        if random.integers(2):
            for place, kind in zip(LAYOUTS[random.integers(len(LAYOUTS))], ("JPEGImages", "Annotations")):
                shutil.copytree(self.room / "sound" / kind, tree / place, dirs_exist_ok=True)
        else:
            tree.mkdir()
        try:
            for _ in range(random.integers(1, 25)):
                self._grow(tree, random)
            # Most of a tree is damaged; what is left shall be read nevertheless.
            lenient = [mock.patch.object(module, "_MOST_LEFT_OUT", 0.99) for module in (check, voc_folder)]
            with lenient[0], lenient[1]:
                reads = open_folder, open_voc_folder, open_voc_images
                return any([self._opened(read, tree, cache) for read in reads])
        finally:
            shutil.rmtree(tree)
            shutil.rmtree(cache, ignore_errors=True)

    def _grow(self, tree, random):
        """Puts something somewhere, unless something is there."""

        def one_of(things):
            return things[random.integers(len(things))]

        folders = sorted(path for path in (tree, *tree.rglob("*")) if path.is_dir() and not path.is_symlink())
        path, kind = one_of(folders) / one_of((*NAMES, *NAMES, *ODD)), random.integers(8)
        if os.path.lexists(path):
            return
        if kind < 3:
            path.mkdir()
        elif kind == 3:
            path.write_bytes(one_of(self.images))
        elif kind == 4:
            path.write_bytes(mutate.damaged(random, self.images + self.texts))
        elif kind == 5:
            path.write_bytes(one_of(self.texts))
        elif kind == 6:
            path.symlink_to(one_of(folders) if random.integers(3) else path.name)
        else:
            os.mkfifo(path)

    def _opened(self, read, tree, cache):
        try:
            source = read(str(tree), "train", str(cache))
        except ConfigError as error:
            return refused(error)
        assert len([*source.ordered()]) == source.num_examples
        real = sum(path.suffix.lower() in tree.EXTENSIONS for path in tree.rglob("*"))
        assert source.num_examples <= real, "pictures are multiplied"
        return True
