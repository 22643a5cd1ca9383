"""Boxes against sets of pixels in numpy."""

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps

from cpc_tf.boxes import geometry as boxes

SIZE = 9, 13  # height, width of the images here


def pixels(box):
    """The pixels of a half-open box as a mask."""
    mask = np.zeros(SIZE, bool)
    ymin, xmin, ymax, xmax = (int(number) for number in box)
    mask[ymin:ymax, xmin:xmax] = True
    return mask


def test_from_voc_keeps_the_pixels():
    random = np.random.default_rng(0)
    (y0, y1), (x0, x1) = (
        1 + np.sort([random.choice(n, 2, replace=False) for _ in range(50)]).T for n in SIZE
    )
    raw = np.stack([y0, x0, y1, x1], axis=1).astype(np.float32)
    converted, sound = boxes.from_voc(raw, SIZE)
    assert sound.numpy().all()
    for box, (ymin, xmin, ymax, xmax) in zip(converted.numpy(), raw):
        y, x = np.mgrid[1 : SIZE[0] + 1, 1 : SIZE[1] + 1]
        np.testing.assert_array_equal(
            pixels(box), (y >= ymin) & (y <= ymax) & (x >= xmin) & (x <= xmax)
        )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ((1, 1, 2, 2), (0, 0, 2, 2)),
        ((1, 1, 9, 13), (0, 0, 9, 13)),
        ((0, -4, 100, 100), (0, 0, 9, 13)),  # beyond the border
        ((2.5, 3.5, 4.5, 5.25), (1.5, 2.5, 4.5, 5.25)),
        ((3, 4, 3, 6), None),  # no height, as in two boxes of bccd-voc
        ((3, 4, 5, 4), None),
        ((5, 4, 3, 6), None),
        ((10, 2, 12, 4), None),  # below the image
        ((-5, -5, 0, 0), None),
        ((1, 1, np.nan, 2), None),
        ((1, 1, np.inf, 2), None),
        ((-np.inf, 1, 2, 2), None),
    ],
)
def test_from_voc_known_answers(raw, expected):
    converted, sound = boxes.from_voc(np.float32([raw]), SIZE)
    assert sound.numpy().tolist() == [expected is not None]
    if expected:
        np.testing.assert_array_equal(converted, [expected])


@pytest.mark.parametrize("tag", range(1, 9))
def test_turn_is_what_pillow_does(tag):
    random = np.random.default_rng(tag)
    rows, columns = (np.sort(random.choice(n + 1, 2, replace=False)) for n in SIZE)
    box = np.float32([[rows[0], columns[0], rows[1], columns[1]]])
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = tag
    stored = Image.fromarray(pixels(box[0]))
    stored.info["exif"] = exif.tobytes()
    shown = np.asarray(ImageOps.exif_transpose(stored))
    (turned,) = boxes.turn(box, [SIZE], [tag]).numpy()
    expected = np.zeros(shown.shape, bool)
    expected[int(turned[0]) : int(turned[2]), int(turned[1]) : int(turned[3])] = True
    np.testing.assert_array_equal(expected, shown)


def test_mirror_exchanges_left_and_right():
    box = np.float32([[1, 2, 4, 9], [0, 0, 9, 13]])
    mirrored = boxes.mirror(box, np.float32(SIZE[1])).numpy()
    for one, other in zip(box, mirrored):
        np.testing.assert_array_equal(pixels(other), pixels(one)[:, ::-1])


def test_choose_drops_too_small_boxes_then_smaller_ones():
    sides = np.float32([[5, 5], [1, 50], [2, 2], [7, 3], [50, 1.9], [2, 9], [3, 7]])
    some = np.concatenate([np.zeros_like(sides), sides], axis=1)
    assert boxes.choose(some, 2.0, 9).numpy().tolist() == [0, 2, 3, 5, 6]
    # of areas 25, 4, 21, 18, 21, in their order
    assert boxes.choose(some, 2.0, 3).numpy().tolist() == [
        0,
        3,
        6,
    ]
    assert boxes.choose(some, 60.0, 3).numpy().tolist() == []
    assert boxes.choose(some[:0], 0.0, 3).numpy().tolist() == []
