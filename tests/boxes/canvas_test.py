"""Canvases against NumPy and PIL, and batches of them: boxes on their objects, replay, hosts,
evaluation.
"""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.boxes import canvas
from cpc_tf.boxes.canvas import CanvasView
from cpc_tf.boxes.config import CanvasConfig
from tests.boxes.samples import RECTANGLES, Images, rectangle
from tests.data.pipeline_test import assert_same, joined, take
from tests.data.samples import encode

SMALL = CanvasConfig(
    area_scale=1,
    canvas_height=20,
    canvas_width=30,
    smallest_area=100,
    largest_area=300,
    test_area=200,
)


def views(count=600, **changes):
    config = CanvasConfig(
        **{
            "area_scale": 1.0,
            "smallest_area": 100,
            "largest_area": 300,
            "canvas_colour_drop": 0.5,
            **changes,
        }
    )
    draw = tf.function(lambda counter: canvas.draw(config, 3, counter))
    return CanvasView(*map(np.array, zip(*(draw(tf.constant(i, tf.int64)) for i in range(count)))))


@pytest.mark.slow
def test_draws_are_uniform_and_independent():
    drawn = views(area_scale=2.0)
    assert drawn.area.min() >= 200
    assert drawn.area.max() <= 600
    np.testing.assert_allclose(np.histogram(drawn.area, 4, (200, 600))[0], 150, atol=45)
    assert 240 < drawn.mirrored.sum() < 360
    np.testing.assert_allclose(np.bincount(drawn.kept + 1), [300, 100, 100, 100], atol=45)
    assert (
        abs(np.corrcoef([drawn.area, drawn.mirrored, drawn.kept < 0])[np.triu_indices(3, 1)]).max()
        < 0.15
    )


@pytest.mark.slow
def test_what_is_switched_off_does_not_happen():
    assert not views(50, canvas_mirror=False).mirrored.any()
    for probability, kept in ((0.0, {-1}), (1.0, {0, 1, 2})):
        assert set(views(50, canvas_colour_drop=probability).kept) == kept


def test_plain_view():
    area, mirrored, kept = canvas.plain(CanvasConfig(area_scale=0.1))
    assert (float(area), bool(mirrored), int(kept)) == (30000.0, False, -1)


# Size, area, and size on the canvas.
FITTED = [
    ((10, 10), 100, (10, 10)),
    ((5, 10), 200, (10, 20)),
    ((400, 200), 200, (20, 10)),
    ((3, 4), 108, (9, 12)),
    ((10, 100), 100, (3, 30)),  # the canvas is 30 wide
    ((100, 10), 300, (20, 2)),  # and 20 high
    ((1, 3000), 300, (1, 30)),
    ((3000, 1), 300, (20, 1)),
]


@pytest.mark.parametrize(("size", "area", "expected"), FITTED)
def test_fitted(size, area, expected):
    assert (
        tuple(canvas.fitted(tf.constant(size), tf.constant(area, tf.float32), SMALL).numpy())
        == expected
    )


def test_min_decode_side_covers_every_shorter_side():
    for config in (
        SMALL,
        CanvasConfig(area_scale=1, canvas_height=800, canvas_width=800),
        CanvasConfig(area_scale=0.07, canvas_height=800, canvas_width=800),
        CanvasConfig(area_scale=1, canvas_height=800, canvas_width=2000),
    ):
        largest = max(config.largest_area, config.test_area) * config.area_scale
        for size in ((100, 100), (300, 400), (999, 1000), (500, 20), (7, 7)):
            sides = canvas.fitted(tf.constant(size), tf.constant(largest, tf.float32), config)
            assert canvas.min_decode_side(config) >= min(sides.numpy())


NOISE = np.random.default_rng(0).integers(0, 256, [12, 16, 3], dtype=np.uint8)


def show(image, size, mirrored=False, kept=-1):
    view = CanvasView(tf.constant(0.0), tf.constant(mirrored), tf.constant(kept))
    return canvas.show(tf.constant(image), tf.constant(size), view, SMALL).numpy()


@pytest.mark.parametrize("kept", [-1, 0, 1, 2])
@pytest.mark.parametrize("mirrored", [False, True])
def test_show_places_image_top_left_on_grey(mirrored, kept):
    shown = show(NOISE, (12, 16), mirrored, kept)
    expected = np.full([20, 30, 3], 128)
    for channel in range(3):
        if kept in (-1, channel):
            expected[:12, :16, channel] = NOISE[:, :: -1 if mirrored else 1, channel]
    np.testing.assert_array_equal(shown, expected)


@pytest.mark.parametrize("size", [(6, 8), (4, 4), (20, 30), (7, 29)])
def test_show_resizes_as_pil_does(size):
    smooth = np.asarray(Image.fromarray(NOISE[:3, :4]).resize((16, 12), Image.Resampling.BICUBIC))
    smaller = size[0] < 12 and size[1] < 16
    kind = Image.Resampling.BOX if smaller else Image.Resampling.BILINEAR
    expected = np.asarray(Image.fromarray(smooth).resize(size[::-1], kind)).astype(int)
    shown = show(smooth, size)[: size[0], : size[1]]
    # PIL smooths the axis that shrinks, here each is interpolated if one grows.
    np.testing.assert_allclose(shown, expected, atol=2 if size != (7, 29) else 30)


CONFIG = CanvasConfig(
    area_scale=1.0,
    canvas_height=60,
    canvas_width=80,
    smallest_area=800,
    largest_area=2400,
    test_area=1500,
    max_boxes=5,
)
SOURCE = Images([rectangle(*example) for example in RECTANGLES])


def batches(count, source=SOURCE, config=CONFIG, **options):
    return take(canvas.batches(source, config, **{"global_batch": 4, "seed": 1, **options}), count)


def white(image, size):
    """Mass and edges (ymin, xmin, ymax, xmax) of the white rectangle, to a part of a pixel, from
    its soft border.
    """
    shown = image[: size[0], : size[1]].max(axis=2) / 255.0
    rows, columns = shown.max(axis=1), shown.max(axis=0)
    edges = []
    for profile in (rows, columns):
        start = np.flatnonzero(profile > 0.02)[0]
        middle = start + np.argmax(profile[start:] > 0.98)
        low = middle - profile[start:middle].sum()
        edges.append((low, low + profile.sum()))
    (ymin, ymax), (xmin, xmax) = edges
    return np.array([ymin, xmin, ymax, xmax])


@pytest.mark.slow
def test_boxes_stay_on_their_objects():
    config = CanvasConfig(**{**vars(CONFIG), "canvas_colour_drop": 0.0})
    shapes = {
        "image": (4, 60, 80, 3),
        "size": (4, 2),
        "boxes": (4, 5, 4),
        "labels": (4, 5),
        "left_out": (4,),
    }
    found = batches(10, config=config)
    assert all({name: values.shape for name, values in batch.items()} == shapes for batch in found)
    mirrored, areas = set(), []
    for step, batch in enumerate(found):
        for row in range(4):
            shape, (_, left, _, _) = RECTANGLES[(4 * step + row) % len(RECTANGLES)]
            height, width = batch["size"][row]
            box = batch["boxes"][row, 0]
            np.testing.assert_allclose(box, white(batch["image"][row], (height, width)), atol=0.25)
            assert (batch["image"][row, height:] == 128).all()
            assert (batch["image"][row, :, width:] == 128).all()
            # Rounding to whole pixels may change the aspect ratio by half a pixel a side.
            np.testing.assert_allclose(
                height / width, shape[0] / shape[1], rtol=0.5 / height + 0.5 / width + 1e-6
            )
            mirrored.add(abs(box[1] - left * width / shape[1]) > 1)
            areas.append(height * width)
    assert mirrored == {False, True}
    assert 650 < min(areas) < 1000
    assert 2000 < max(areas) < 2500


@pytest.mark.slow
def test_boxes_match_a_jpeg_decoded_at_a_fraction():
    shape, box = (1003, 805), (300, 203, 701, 600)
    source = Images([rectangle(shape, box, "JPEG")])
    config = CanvasConfig(**{**vars(CONFIG), "canvas_colour_drop": 0.0})
    for batch in batches(4, source, config):
        for row in range(4):
            found = white(batch["image"][row], batch["size"][row])
            np.testing.assert_allclose(batch["boxes"][row, 0], found, atol=0.25)


@pytest.mark.slow
def test_colours_are_dropped_in_the_picture_alone():
    white_one = Images([rectangle((40, 60), (0, 0, 40, 60))])
    kept = [image[0, 0] == 255 for batch in batches(10, white_one) for image in batch["image"]]
    counts = np.array([k for k in kept if k.sum() == 1]).sum(axis=0)
    assert set(np.sum(kept, axis=1)) == {1, 3}
    assert counts.min() >= 2, "each channel is kept now and then"


@pytest.mark.slow
def test_labels_go_with_their_boxes():
    # Too small; large; small; too small; large.
    boxes = [(0, 0, 1, 39), (0, 0, 40, 30), (8, 8, 16, 16), (5, 5, 6, 6), (10, 10, 30, 50)]
    example = (
        encode(np.zeros([40, 60, 3], np.uint8)),
        boxes,
        [0, 1, 2, 0, 1],
        [True, False, False, True, True],
    )
    config = CanvasConfig(**{**vars(CONFIG), "canvas_mirror": False})
    for batch in batches(3, Images([example]), config):
        for row in range(4):
            factor = batch["size"][row] / np.array([40, 60])
            expected = np.array(boxes)[[1, 2, 4]] * np.tile(factor, 2)
            np.testing.assert_allclose(
                batch["boxes"][row], np.concatenate([expected, np.zeros([2, 4])]), rtol=1e-5
            )
            assert batch["labels"][row].tolist() == [1, 2, 1, -1, -1]
            assert batch["left_out"][row] == 2


@pytest.mark.slow
def test_of_a_hundred_boxes_the_largest_stay():
    random = np.random.default_rng(0)
    boxes = np.stack(
        [np.zeros(100), np.zeros(100), *random.uniform([[10], [15]], [[40], [60]], [2, 100])],
        axis=1,
    )
    example = encode(np.zeros([40, 60, 3], np.uint8)), boxes, list(range(100)), [False] * 100
    batch = batches(1, Images([example]))[0]
    largest = np.sort(np.argsort(-boxes[:, 2] * boxes[:, 3])[:5])
    assert batch["labels"].tolist() == [largest.tolist()] * 4
    assert batch["left_out"].tolist() == [95] * 4


@pytest.mark.slow
def test_image_without_objects_and_grey_image():
    grey = encode(np.full([40, 60], 77, np.uint8))
    (batch,) = batches(1, Images([(grey, [], [], []), rectangle(*RECTANGLES[0])]))
    assert batch["labels"].tolist() == [[-1] * 5, [1, -1, -1, -1, -1]] * 2
    assert not batch["boxes"][0].any()
    assert set(batch["image"][0].flatten()) <= {77, 128}


@pytest.mark.slow
def test_resume_hosts_and_seed():
    whole = batches(4)
    # the last two of four rows, one by one
    part = batches(4, start_step=2, shard=(1, 2), per_batch=1)
    assert_same(
        joined([part[::2], part[1::2]]),
        [{key: rows[2:] for key, rows in batch.items()} for batch in whole[2:]],
    )
    assert (batches(1, seed=2)[0]["size"] != whole[0]["size"]).any()


@pytest.mark.slow
def test_plain_batches_show_each_image_once_unchanged():
    nothing = encode(np.zeros([50, 50, 3], np.uint8)), [], [], []
    three = (
        encode(np.zeros([50, 50, 3], np.uint8)),
        np.tile([0.0, 0, 1, 1], [3, 1]),
        [0, 1, 2],
        [True, False, True],
    )
    source = Images([rectangle(*example) for example in RECTANGLES] + [nothing, three])
    found = take(canvas.plain_batches(source, CONFIG, 4), 9)
    assert [len(batch["name"]) for batch in found] == [4, 3]
    assert [name for batch in found for name in batch["name"]] == [
        f"image{i}".encode() for i in range(7)
    ]
    assert found[0]["boxes"].shape == (4, 1, 4)
    assert found[1]["labels"].tolist() == [[1, -1, -1], [-1, -1, -1], [0, 1, 2]]
    assert found[1]["difficult"].tolist() == [[False] * 3, [False] * 3, [True, False, True]]
    images = [
        {name: values[i] for name, values in batch.items()}
        for batch in found
        for i in range(len(batch["name"]))
    ]
    for image, (shape, box) in zip(images, RECTANGLES):
        np.testing.assert_array_equal(image["boxes"][0], box)
        np.testing.assert_allclose(image["size"], np.array(shape) * image["scale"], rtol=1e-6)
        # What a detector finds on the canvas, divided by the scale, is the ground truth.
        on_image = white(image["image"], image["size"]) / np.tile(image["scale"], 2)
        np.testing.assert_allclose(on_image, box, atol=0.25 / image["scale"].min())
    areas = [np.prod(image["size"]) for image in images]
    np.testing.assert_allclose(np.delete(areas, 4), 1500, rtol=0.03)
    assert areas[4] < 1000, "the canvas bounds it"


@pytest.mark.slow
def test_only_some_images_are_decoded_with_all_objects():
    whole, part = (
        take(canvas.plain_batches(SOURCE, CONFIG, 3, decoded), 1)[0]
        for decoded in (None, lambda place: place == 1)
    )
    assert [bool(image.any()) for image in part.pop("image")] == [False, True, False]
    assert_same([part], [{name: values for name, values in whole.items() if name != "image"}])
