"""Views and canvases against numpy and PIL."""

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.boxes import canvas
from cpc_tf.boxes.canvas import CanvasView
from cpc_tf.boxes.config import CanvasConfig

SMALL = CanvasConfig(
    area_scale=1, canvas_height=20, canvas_width=30, smallest_area=100, largest_area=300, test_area=200
)


def views(count=600, **changes):
    config = CanvasConfig(
        **{"area_scale": 1.0, "smallest_area": 100, "largest_area": 300, "canvas_colour_drop": 0.5, **changes}
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
    assert abs(np.corrcoef([drawn.area, drawn.mirrored, drawn.kept < 0])[np.triu_indices(3, 1)]).max() < 0.15


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
    assert tuple(canvas.fitted(tf.constant(size), tf.constant(area, tf.float32), SMALL).numpy()) == expected


def test_min_decode_side_is_no_less_than_any_shorter_side():
    for config in (
        SMALL,
        CanvasConfig(area_scale=1),
        CanvasConfig(area_scale=0.07),
        CanvasConfig(area_scale=1, canvas_width=2000),
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
def test_show_puts_the_image_at_the_top_left_of_grey(mirrored, kept):
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
