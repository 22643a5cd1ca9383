"""Boxes of pictures that are stored turned, with EXIF orientation, down to the canvas."""

import io

import numpy as np
import pytest
from PIL import ExifTags, Image

from cpc_tf.data.config import CanvasConfig
from cpc_tf.data.pipeline import detection_pipeline
from tests.data.sources.boxes_folder_test import write, xml  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]

# As a person sees them: height, width, and a bright rectangle (ymin, xmin, ymax, xmax) that each turn moves.
SHOWN, RECTANGLE = (48, 80), (8, 16, 24, 64)
# How a camera stores what is seen, by Pillow's names of turns.
STORE = {
    1: None,
    2: Image.FLIP_LEFT_RIGHT,
    3: Image.ROTATE_180,
    4: Image.FLIP_TOP_BOTTOM,
    5: Image.TRANSPOSE,
    6: Image.ROTATE_90,
    7: Image.TRANSVERSE,
    8: Image.ROTATE_270,
}
CANVAS = CanvasConfig(
    canvas_height=48, canvas_width=80, smallest_area=3840, largest_area=3840, test_area=3840, canvas_mirror=False,
    canvas_colour_drop=0.0, max_boxes=2,
)  # fmt: skip


def stored(tag):
    """(picture, box in the stored picture as VOC counts, size of the stored picture)."""
    pixels = np.zeros([*SHOWN, 3], np.uint8)
    ymin, xmin, ymax, xmax = RECTANGLE
    pixels[ymin:ymax, xmin:xmax] = 255
    image = Image.fromarray(pixels)
    if STORE[tag] is not None:
        image = image.transpose(STORE[tag])
    exif, stream = Image.Exif(), io.BytesIO()
    exif[ExifTags.Base.Orientation] = tag
    image.save(stream, "JPEG", quality=100, subsampling=0, exif=exif)
    y, x = np.nonzero(np.asarray(image)[..., 0] > 128)
    return stream.getvalue(), (x.min() + 1, y.min() + 1, x.max() + 1, y.max() + 1), image.size[::-1]


def assert_bright_just_inside(image, box):
    """That the bright pixels are those of the box; the resizing of 48 x 80 px to themselves changes none."""
    expected = np.zeros(image.shape[:2], bool)
    ymin, xmin, ymax, xmax = np.asarray(box).astype(int)
    expected[ymin:ymax, xmin:xmax] = True
    np.testing.assert_array_equal(np.asarray(image)[..., 0] > 128, expected)


@pytest.fixture
def source_of(write, tmp_path):  # noqa: F811
    """A source of the images of all tags with boxes where `box_of` says."""

    def source_of(box_of):
        files = {}
        for tag in STORE:
            picture, box, size = stored(tag)
            files |= {f"JPEGImages/{tag}.jpg": picture, f"Annotations/{tag}.xml": box_of(tag, box, size)}
        return write(files)

    return source_of


def shown_box():
    ymin, xmin, ymax, xmax = RECTANGLE
    return xmin + 1, ymin + 1, xmax, ymax


def test_boxes_as_a_viewer_shows_them(source_of, warnings):
    source = source_of(lambda tag, box, size: xml(("a", *shown_box()), size=SHOWN))
    (batch,) = detection_pipeline.plain_batches(source, CANVAS, 8)
    for image, boxes in zip(batch["image"], batch["boxes"]):
        np.testing.assert_array_equal(boxes, [RECTANGLE])
        assert_bright_just_inside(image, boxes[0])
    (line,) = warnings
    assert "7 of 8 images are turned as their EXIF orientation says; boxes are places in the turned image: " in line


def test_boxes_in_the_stored_picture_are_turned_with_it_where_the_size_tells(source_of, warnings):
    def box_of(tag, box, size):
        return xml(("a", *(box if tag >= 5 else shown_box())), size=size)

    source = source_of(box_of)
    batch = next(iter(detection_pipeline.batches(source, CANVAS, global_batch=8, seed=0)))
    for image, boxes in zip(batch["image"], batch["boxes"]):
        np.testing.assert_array_equal(boxes[0], RECTANGLE)
        assert_bright_just_inside(image, boxes[0])
    (line,) = [line for line in warnings if "they are stored in" in line]
    assert "4 of 8 images have annotations of the size they are stored in; their boxes are turned with them" in line
    assert line.endswith("/5.jpg, JPEGImages/6.jpg, JPEGImages/7.jpg, JPEGImages/8.jpg")


def test_without_a_size_boxes_are_as_a_viewer_shows_them(source_of, warnings):
    source = source_of(lambda tag, box, size: xml(("a", *shown_box()), size=(0, 0)))
    assert all(example["boxes"].tolist() == [[*RECTANGLE]] for example in source.ordered().as_numpy_iterator())
