"""Settings of the images and of their geometry."""

from __future__ import annotations

import dataclasses
import functools
import os

from cpc_tf.core.settings import MOST, ConfigError, Settings, count, parted_names, setting, side
from cpc_tf.data.reference import FOLDER, DataRef

# How values of more than 8 bits become 8: see `check.measured`.
RANGE = "range"
FULL = "full"
# How class folders that may be no classes are treated.
ASK = "ask"
CLASSES = "classes"
LEFT_OUT = "left_out"
# How an image becomes the square that is cropped: see `views.fit`.
SQUASH = "squash"
CROP = "crop"
PAD = "pad"


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Where the images come from."""

    dataset: str = setting(
        "photos",
        "Images to use: 'photos' (embedded photographs), 'photos/N' (N unlabelled crops of them),"
        " 'folder:PATH' (your own images), 'collages' (embedded, with boxes), 'voc:PATH',"
        " 'coco:PATH', 'yolo:PATH', 'csv:PATH' (images with boxes in these formats), or the name of"
        " a TensorFlow Datasets builder",
        compared=False,
    )
    data_dir: str = setting(
        "",
        "Directory in which TensorFlow Datasets keeps its data; empty: its own default",
        free_on_resume=True,
    )
    split: str = setting(
        "train",
        "Part of the dataset to learn from: of a folder the name of a split, else the syntax of"
        " TensorFlow Datasets",
    )
    top_folders: str = setting(
        "auto",
        "What the folders at the top of --dataset=folder:PATH are; auto: splits if they have usual"
        " names of splits",
        choices=("auto", "splits", "classes"),
    )
    ambiguous_folders = ASK  # see PicturesConfig, as for the next one
    share_records = False
    split_seed = 0  # of slices of folders and of the test part of --labelled
    draws_test = True  # whether a folder of --labelled without a split to test on gets one
    shuffle_window: int = count(
        16384,
        "Examples of TensorFlow Datasets that are shuffled together; folders are shuffled as a"
        " whole",
        unit="images",
    )
    sixteen_bit: str = setting(
        RANGE,
        "How images of 16 bits become 8: 'range' (the range of values in the whole dataset becomes"
        " 0 to 255), 'full' (0 to 65535 does, that is, the upper 8 bits are used)",
        choices=(RANGE, FULL),
    )
    max_megapixels: float = setting(
        100.0,
        "Images of a folder with at least this size by their header are left out, since even"
        " a small file can decode to more than the memory; for predict and exported models it"
        " is always 100",
        unit="megapixels",
        above=0,
        maximum=1000,
        compared=False,
    )

    def check(self):
        named = DataRef.parse(self.dataset)
        if named.kind and not named.path:
            example = f"--dataset={named.kind}:PATH"
            raise ConfigError("dataset", self.dataset, f"name a path, e.g. {example}")
        if not named.path.partition(":")[0]:
            example = "--dataset=photos or --dataset=folder:PATH"
            raise ConfigError("dataset", self.dataset, f"name a dataset, e.g. {example}")

    @functools.cached_property
    def ref(self) -> DataRef:
        """What is opened."""
        return DataRef.parse(self.dataset)

    @property
    def origin(self) -> str:
        """What is opened, as a value of --dataset, for records."""
        return str(self.ref)

    @property
    def flag(self) -> str:
        """The flag that names what is opened, with its value, for messages."""
        return f"--dataset={self.dataset}"


@dataclasses.dataclass(frozen=True)
class PicturesConfig(DataConfig):
    """Where the images come from, for tasks that take folders of images."""

    labelled: str = setting(
        "",
        "Folder of your images, instead of --dataset: one subfolder for each class, or any folder"
        " with --labels. Without a folder val or test a fifth of each class is the test",
        compared=False,
    )
    labels: str = setting(
        "",
        "CSV file with the classes of the images in --labelled, in lines such as"
        " pictures/1.jpg,cat; a blank is no label yet. Images with the same text in a column named"
        " group are never divided between splits or slices",
    )
    unlabelled: str = setting(
        "",
        "Folders of images without labels, separated by commas, beside those of --labelled:"
        " to pre-train on, or for --propagation",
    )
    share_records: bool = setting(
        False,
        "Each of several hosts reads only its share of TensorFlow Datasets' records, another one in"
        " each epoch: the order then depends on the number of hosts. Of folders each host reads"
        " only what it needs anyway",
        compared=False,
    )
    ambiguous_folders: str = setting(
        ASK,
        "Classes with names such as unknown, other or nan, and class folders without images. 'ask':"
        " the run stops; 'classes': such names are classes; 'left_out': they are not. Folders"
        " without images never are",
        choices=(ASK, CLASSES, LEFT_OUT),
    )

    def check(self):
        super().check()
        if not all(self.folders):
            raise ConfigError(
                "unlabelled",
                self.unlabelled,
                "must be folders separated by single commas, e.g."
                " --unlabelled=pictures,more_pictures; a name that contains a comma must be in"
                " quotation marks",
            )

    @property
    def folders(self) -> list[str]:
        """The folders of --unlabelled; a folder with a comma in its name alone needs no quotation
        marks.
        """
        if os.path.isdir(os.path.expanduser(self.unlabelled)):
            return [self.unlabelled]
        return [name.strip() for name in parted_names(self.unlabelled)]

    @functools.cached_property
    def ref(self) -> DataRef:
        folder = self.labelled or self.unlabelled
        return DataRef(FOLDER, folder) if folder else DataRef.parse(self.dataset)

    @property
    def flag(self) -> str:
        if self.labelled:
            return f"--labelled={self.labelled}"
        return f"--unlabelled={self.unlabelled}" if self.unlabelled else super().flag


def _mode(images: str) -> str:
    """Returns the setting of the aspect ratio of some images."""
    return setting(
        SQUASH,
        f"Aspect ratio of {images}: 'squash' (lost, all of the image is in the square), 'crop'"
        " (kept, the shorter side becomes --resize) or 'pad' (kept, the longer side does, and grey"
        " fills the square)",
        choices=(SQUASH, CROP, PAD),
    )


@dataclasses.dataclass(frozen=True)
class GeometryConfig(Settings):
    """Image -> resize -> random crop -> grid of patches. Defaults: appendix A."""

    resize: int = side(
        300, "Side of the square that an image is resized to before it is cropped", source="App. A"
    )
    image_size: int = side(260, "Side of the random crop of an image", source="App. A")
    patch_size: int = side(80, "Side of a patch", source="App. A")
    patch_stride: int = side(36, "Distance between neighbouring patches", source="App. A")
    mirror: bool = setting(False, "Mirror half of the training images left to right")
    resize_mode: str = _mode("images that are resized")

    def check(self):
        if self.image_size > self.resize:
            raise ConfigError(
                "image_size",
                self.image_size,
                f"larger than --resize={self.resize}, the size that it is cropped from",
            )
        if self.patch_size > self.image_size:
            raise ConfigError(
                "patch_size", self.patch_size, f"larger than --image_size={self.image_size}"
            )
        left_over = (self.image_size - self.patch_size) % self.patch_stride
        if left_over:
            raise ConfigError(
                "patch_stride",
                self.patch_stride,
                f"the grid does not fit, {left_over} of {self.image_size} px are "
                f"left over; --image_size={self.image_size - left_over} would fit",
            )
        if 3 * (self.grid * self.patch_size) ** 2 > MOST:
            raise ConfigError(
                "patch_stride",
                self.patch_stride,
                f"the {self.grid} x {self.grid} patches of an image are more than 2 GB; use a"
                " larger --patch_stride",
            )

    @property
    def whole(self) -> GeometryConfig:
        """The same images as grids of one patch."""
        return dataclasses.replace(self, patch_size=self.image_size)

    @property
    def grid(self) -> int:
        """Patches per side of the grid."""
        return (self.image_size - self.patch_size) // self.patch_stride + 1


@dataclasses.dataclass(frozen=True)
class ImageConfig(Settings):
    """Image -> random-sized crop, for a classifier of whole images; tested on the centre crop.
    Appendix C.
    """

    resize: int = side(
        0,
        "Side of the square that test images are resized to, then cropped; 0: larger than"
        " --image_size, in the ratio of the encoder's pre-training, else by an eighth",
        minimum=0,
        derived=True,
    )
    image_size: int = side(
        0,
        "Side of the images that are classified; 0: that of the encoder's pre-training, else 224",
        source="App. C: 224, 14x14 at stride 16",
        minimum=0,
        derived=True,
    )
    crop_area: float = setting(
        0.08,
        "Smallest part of an image's area that a training crop may have",
        source="Szegedy et al. 2014",
        minimum=1e-4,  # of a huge image still some pixels
        maximum=1,
    )
    crop_stretch: float = setting(
        4 / 3,
        "Largest aspect ratio of a training crop",
        source="Szegedy et al. 2014",
        minimum=1,
        maximum=100,
        detail=True,
    )
    mirror: bool = setting(True, "Mirror half of the training images left to right")
    resize_mode: str = _mode("test images; training crops are of the images themselves")

    def check(self):
        if 0 < self.resize < self.image_size:
            raise ConfigError(
                "image_size",
                self.image_size,
                f"larger than --resize={self.resize}, the size that it is cropped from",
            )
