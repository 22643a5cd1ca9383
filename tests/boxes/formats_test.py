"""The same images and boxes in VOC's, COCO's and YOLO's formats are the same data, also if stored
turned by EXIF.
"""

import io

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from cpc_tf.boxes import canvas
from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from tests.boxes.samples import box, coco, image, open_boxes, picture, xml
from tests.data.samples import write_files

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unchecked")]

# (ymin, xmin, ymax, xmax) from 0, half-open: boxes of images of sizes whose reciprocals are no sums
# of powers of two.
SIZES = [(8, 12), (37, 53), (49, 23), (101, 7), (11, 97)]
CLASSES = ("zebra", "cat", "dog", "not there")  # not in the order of their names

# As a person sees them: height, width, and a bright rectangle (ymin, xmin, ymax, xmax) that each
# turn moves.
SHOWN, RECTANGLE = (48, 80), (8, 16, 24, 64)
TAGS = range(1, 9)  # of EXIF's orientation
CANVAS = CanvasConfig(
    area_scale=1,
    canvas_height=48,
    canvas_width=80,
    smallest_area=3840,
    largest_area=3840,
    test_area=3840,
    canvas_mirror=False,
    canvas_colour_drop=0.0,
    max_boxes=2,
)


def stored(tag):
    """(image as a camera stores it, box in the stored image as VOC counts, size of the stored
    image).
    """
    pixels = np.zeros([*SHOWN, 3], np.uint8)
    ymin, xmin, ymax, xmax = RECTANGLE
    pixels[ymin:ymax, xmin:xmax] = 255
    shown, stream, exif = Image.fromarray(pixels), io.BytesIO(), Image.Exif()
    # the turn back; others are their own
    shown.getexif()[ExifTags.Base.Orientation] = {6: 8, 8: 6}.get(tag, tag)
    turned = ImageOps.exif_transpose(shown)
    exif[ExifTags.Base.Orientation] = tag
    turned.save(stream, "JPEG", quality=100, subsampling=0, exif=exif)
    y, x = np.nonzero(np.asarray(turned)[..., 0] > 128)
    corners = (int(number) + 1 for number in (x.min(), y.min(), x.max(), y.max()))
    return stream.getvalue(), tuple(corners), turned.size[::-1]


def assert_boxes_are_on_the_rectangles(batch):
    """That the box is the rectangle, and so are the bright pixels; the resizing of 48 x 80 px to
    themselves is none.
    """
    expected = np.zeros(SHOWN, bool)
    ymin, xmin, ymax, xmax = RECTANGLE
    expected[ymin:ymax, xmin:xmax] = True
    for shown, boxes in zip(batch["image"], batch["boxes"]):
        np.testing.assert_array_equal(boxes[0], RECTANGLE)
        np.testing.assert_array_equal(np.asarray(shown)[..., 0] > 128, expected)


def boxes_of(number, size):
    """(class, box, whether difficult) of an image; sides of two pixels or more, since VOC can state
    no shorter ones.
    """
    random = np.random.default_rng(number)
    corners = [
        np.sort(random.permuted(np.tile(np.arange(0, n + 1, 2), [number, 1]), axis=1)[:, :2])
        for n in size
    ]
    boxes = np.stack(
        [corners[0][:, 0], corners[1][:, 0], corners[0][:, 1], corners[1][:, 1]], 1
    ).tolist()
    return [(int(random.integers(3)), box, bool(random.integers(2))) for box in boxes]


def write(root):
    """Writes a folder of each format; returns {format: dataset}."""
    images = {
        f"{n}.png": (picture(n, *size), size, boxes_of(n, size)) for n, size in enumerate(SIZES)
    }
    for tag in TAGS:  # stored turned
        encoded, (x0, y0, x1, y1), size = stored(tag)
        images[f"t{tag}.jpg"] = (
            encoded,
            size,
            [(1, (y0 - 1, x0 - 1, y1, x1), False)] if tag in (1, 6) else [],
        )
    images_told, boxes_told = [], []
    files = {"yolo/data.yaml": f"names: {list(CLASSES)}\n"}
    for number, (name, (encoded, (height, width), boxes)) in enumerate(images.items()):
        stem = name.split(".")[0]
        objects = [
            (CLASSES[c], x0 + 1, y0 + 1, x1, y1, int(hard)) for c, (y0, x0, y1, x1), hard in boxes
        ]
        files[f"voc/Annotations/{stem}.xml"] = xml(*objects, size=(height, width))
        images_told.append(image(100 - number, name, height=height, width=width))
        boxes_told += [
            box(100 - number, 7 * c + 3, (x0, y0, x1 - x0, y1 - y0), iscrowd=int(hard))
            for c, (y0, x0, y1, x1), hard in boxes
        ]
        parts = [
            (
                c,
                (x0 + x1) / 2 / width,
                (y0 + y1) / 2 / height,
                (x1 - x0) / width,
                (y1 - y0) / height,
            )
            for c, (y0, x0, y1, x1), _ in boxes
        ]
        files[f"yolo/labels/{stem}.txt"] = "".join(
            " ".join(map(repr, map(float, row))) + "\n" for row in parts
        )
        for folder in ("voc/JPEGImages", "coco/images", "yolo/images"):
            files[f"{folder}/{name}"] = encoded
    categories = [{"id": 7 * n + 3, "name": name} for n, name in enumerate(CLASSES)]
    files["coco/annotations/instances_default.json"] = coco(images_told, boxes_told, categories)
    write_files(root, files)
    return {kind: f"{kind}:{root}/{kind}" for kind in ("voc", "coco", "yolo")}


def test_boxes_are_identical_across_formats(tmp_path, cache):
    """Of images that are stored turned, too: COCO's sizes tell as VOC's do."""
    found = {}
    for kind, dataset in write(tmp_path).items():
        source = open_boxes(DataConfig(dataset=dataset, data_dir=cache), "train")
        assert source.class_names == ("cat", "dog", "zebra")
        found[kind] = list(source.ordered().as_numpy_iterator())
        alone = catalog.open_source(DataConfig(dataset=dataset, data_dir=cache), "train+test")
        assert alone.labels().tolist() == [-1] * (len(SIZES) + len(TAGS))
        assert not alone.class_names
    assert sum(len(example["labels"]) for example in found["voc"]) == sum(range(len(SIZES))) + 2
    for in_coco, in_yolo, expected in zip(found["coco"], found["yolo"], found["voc"]):
        for part in expected:
            np.testing.assert_array_equal(in_coco[part], expected[part])
        if expected["name"] != b"t6":  # of which YOLO's text cannot tell how it is meant
            for part in expected.keys() - {"difficult"}:  # which YOLO's format lacks
                np.testing.assert_array_equal(in_yolo[part], expected[part])


@pytest.fixture
def source_of(opened):
    """A source of the images of all tags with boxes and sizes where `told` says: (corners, size) of
    those stored.
    """

    def source_of(told):
        files = {}
        for tag in TAGS:
            encoded, corners, size = stored(tag)
            corners, size = told(tag, corners, size)
            files |= {
                f"JPEGImages/{tag}.jpg": encoded,
                f"Annotations/{tag}.xml": xml(("a", *corners), size=size),
            }
        return opened("voc", files)

    return source_of


AS_SHOWN = RECTANGLE[1] + 1, RECTANGLE[0] + 1, RECTANGLE[3], RECTANGLE[2]  # as VOC counts


def test_boxes_as_a_viewer_shows_them(source_of, warnings):
    source = source_of(lambda tag, corners, size: (AS_SHOWN, SHOWN))
    (batch,) = canvas.plain_batches(source, CANVAS, 8)
    assert_boxes_are_on_the_rectangles(batch)
    assert batch["boxes"].shape == (8, 1, 4)
    (line,) = warnings
    assert (
        "7 of 8 images are rotated by their EXIF orientation; boxes are read as coordinates in"
        " the rotated image: " in line
    )


def test_stored_orientation_boxes_are_rotated_with_the_image(source_of, warnings):
    source = source_of(lambda tag, corners, size: (corners if tag >= 5 else AS_SHOWN, size))
    assert_boxes_are_on_the_rectangles(
        next(iter(canvas.batches(source, CANVAS, global_batch=8, seed=0)))
    )
    (line,) = [line for line in warnings if "in which they are stored" in line]
    assert (
        "4 of 8 images have annotations of the size in which they are stored; their boxes are"
        " rotated with them" in line
    )
    assert line.endswith("/5.jpg, JPEGImages/6.jpg, JPEGImages/7.jpg, JPEGImages/8.jpg")


def test_boxes_without_size_are_in_displayed_orientation(source_of):
    source = source_of(lambda tag, corners, size: (AS_SHOWN, (0, 0)))
    assert all(
        example["boxes"].tolist() == [[*RECTANGLE]]
        for example in source.ordered().as_numpy_iterator()
    )
