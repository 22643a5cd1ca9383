"""Settings of what the encoder sees: pictures, geometry, augmentation."""

import dataclasses

from cpc_tf.settings import ConfigError, Settings, setting


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Where the pictures come from."""

    dataset: str = setting(
        "photos",
        "'photos' (embedded), 'photos/N' for N unlabelled crops, 'folder:PATH' for your own pictures, or the name of a "
        "TensorFlow Datasets builder",
    )
    data_dir: str = setting("", "where TensorFlow Datasets keeps its data; empty: its own default", free_on_resume=True)
    split: str = setting("train", "part of the dataset to learn from (TensorFlow Datasets split syntax)")
    shuffle_window: int = setting(
        16384, "examples shuffled together; folders are always shuffled whole", unit="images", minimum=1
    )

    def check(self):
        if not self.dataset or self.dataset == "folder:":
            raise ConfigError(
                f"--dataset={self.dataset}: name a dataset, e.g. --dataset=photos or --dataset=folder:PATH"
            )


@dataclasses.dataclass(frozen=True)
class GeometryConfig(Settings):
    """Image -> resize -> random crop -> grid of patches. Defaults: appendix A."""

    resize: int = setting(300, "side of the square the image is resized to", unit="px", source="App. A", minimum=1)
    image_size: int = setting(260, "side of the random crop", unit="px", source="App. A", minimum=1)
    patch_size: int = setting(80, "side of a patch", unit="px", source="App. A", minimum=1)
    patch_stride: int = setting(36, "distance between neighbouring patches", unit="px", source="App. A", minimum=1)
    mirror: bool = setting(False, "mirror half of the training images left to right")

    def check(self):
        if self.image_size > self.resize:
            raise ConfigError(
                f"--image_size={self.image_size}: larger than --resize={self.resize}, nothing to crop from"
            )
        if self.patch_size > self.image_size:
            raise ConfigError(f"--patch_size={self.patch_size}: larger than --image_size={self.image_size}")
        left_over = (self.image_size - self.patch_size) % self.patch_stride
        if left_over:
            raise ConfigError(
                f"--patch_stride={self.patch_stride}: the grid does not fit, {left_over} of {self.image_size} px are "
                f"left over; --image_size={self.image_size - left_over} would fit"
            )

    @property
    def grid(self) -> int:
        """Patches per side of the grid."""
        return (self.image_size - self.patch_size) // self.patch_stride + 1


@dataclasses.dataclass(frozen=True)
class ImageConfig(Settings):
    """Image -> random-sized crop, for a classifier of whole images; tested on the centre crop. Appendix C."""

    resize: int = setting(256, "side of the square a test image is resized to", unit="px", minimum=1)
    image_size: int = setting(
        224, "side of the image that is classified", unit="px", source="App. C: 14x14 at stride 16", minimum=1
    )
    crop_area: float = setting(
        0.08, "least part of the image in a training crop", source="Szegedy et al. 2014", above=0, maximum=1
    )
    crop_stretch: float = setting(4 / 3, "largest aspect ratio of a training crop", source="Szegedy", minimum=1)
    mirror: bool = setting(True, "mirror half of the training images left to right")

    def check(self):
        if self.image_size > self.resize:
            raise ConfigError(
                f"--image_size={self.image_size}: larger than --resize={self.resize}, nothing to crop from"
            )


@dataclasses.dataclass(frozen=True)
class CanvasConfig(Settings):
    """How images with objects are shown to a detector."""

    canvas_height: int = setting(
        800, "of the canvas; what does not fit onto it is shrunk further", unit="px", minimum=1
    )
    canvas_width: int = setting(800, "of the canvas", unit="px", minimum=1)
    smallest_area: int = setting(
        150_000, "least area a training image is resized to", unit="px", source="Doersch 2015", minimum=1
    )
    largest_area: int = setting(450_000, "largest area, alike", unit="px", source="Doersch 2015", minimum=1)
    test_area: int = setting(300_000, "area a test image is resized to", unit="px", minimum=1)
    area_scale: float = setting(1.0, "factor on these three areas, for data sets of small images", above=0)
    canvas_mirror: bool = setting(True, "mirror half of the training images left to right, with their boxes")
    canvas_colour_drop: float = setting(
        0.5,
        "probability of keeping one channel of three of a training image",
        source="Doersch 2015",
        minimum=0,
        maximum=1,
    )
    smallest_box: float = setting(
        2.0, "boxes with a shorter side, after resizing, are not learned", unit="px", minimum=0
    )
    max_boxes: int = setting(100, "boxes of a training image; of more, the largest", minimum=1)

    def check(self):
        if self.smallest_area > self.largest_area:
            raise ConfigError(f"--smallest_area={self.smallest_area}: above --largest_area={self.largest_area}")
        for name in ("largest_area", "test_area"):
            area = getattr(self, name) * self.area_scale
            if area > self.canvas_height * self.canvas_width:
                raise ConfigError(
                    f"--{name}={getattr(self, name)}: times --area_scale={self.area_scale:g} it is more than the "
                    f"{self.canvas_height} x {self.canvas_width} px of --canvas_height and --canvas_width"
                )
