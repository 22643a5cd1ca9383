"""What follows from the sizes of images and objects: the scale of the canvas and the anchors."""

import numpy as np
import pytest

from cpc_tf.boxes.config import CanvasConfig
from cpc_tf.boxes.source import Sizes
from cpc_tf.core import cli
from cpc_tf.core.settings import replace, restored_settings
from cpc_tf.detect import inputs
from cpc_tf.detect.config import DetectConfig
from tests.boxes.samples import RECTANGLES, Images, rectangle

CANVAS = CanvasConfig(canvas_height=528, canvas_width=704)
SIDES = np.array([[40, 40], [50, 200], [100, 100], [200, 200]])
SIZES = Sizes(np.array([[480, 640], [960, 1280]]), SIDES, np.array([0, 0, 0, 1]))


def settings(*flags):
    return cli.parse(DetectConfig, ["--canvas_height=528", "--canvas_width=704", *flags])


@pytest.mark.parametrize(
    ("images", "area"),
    [
        ([[480, 640]], 528 * 704),
        ([[60, 80]], 528 * 704),
        ([[640, 480]], 528 * 396),
        ([[10, 10]] * 2 + [[10, 99]], 528**2),
    ],
)
def test_the_largest_training_image_fills_the_canvas(images, area):
    scale = inputs.area_scale(CANVAS, np.array(images))
    assert 0.99 < scale * CANVAS.largest_area / area <= 1
    replace(CANVAS, area_scale=scale)  # is not refused


@pytest.mark.parametrize(
    ("images", "objects", "sides"),
    [
        # 120 px become 96 px in the test; the largest area is half more
        (
            [[480, 640]],
            [120],
            (480, 640),
        ),
        ([[480, 640]], [20], (704, 928)),  # no larger than the paper's canvas
        ([[480, 640]], [480], (128, 160)),  # a large object is no larger
        ([[480, 640], [640, 480]], [120, 120], (576, 576)),  # for both
    ],
)
def test_the_canvas_follows_from_the_objects(images, objects, sides):
    sizes = Sizes(np.array(images), np.array(objects)[:, None].repeat(2, 1), np.arange(len(images)))
    canvas = CanvasConfig()
    found = inputs.canvas_sides(canvas, sizes)
    assert (found["canvas_height"], found["canvas_width"]) == sides
    assert inputs.canvas_sides(replace(canvas, canvas_width=99), sizes) == {
        **found,
        "canvas_width": 99,
    }


def test_canvas_fits_the_given_area_scale():
    config, _ = inputs.fit_to_images(cli.parse(DetectConfig, ["--area_scale=0.4"]), SIZES)
    # for 367 x 490 px
    assert (config.canvas.canvas_height, config.canvas.canvas_width) == (
        384,
        512,
    )


def test_objects_as_shown():
    """An image of twice the size is shown as large; the test shows two thirds of the largest
    area.
    """
    found = inputs.object_sizes(replace(CANVAS, area_scale=528 * 704 / 450_000), SIZES)
    np.testing.assert_allclose(found, 1.1 * np.sqrt(2 / 3) * np.array([40, 100, 100, 100]))


@pytest.mark.parametrize(
    ("objects", "anchors"),
    [([100], [71, 122]), ([32, 64, 256], [25, 46, 85, 157, 290]), ([1, 1], [4])],
)
def test_anchors_span_object_sizes_by_factors_of_two(objects, anchors):
    assert inputs.anchor_sizes(CANVAS, np.array(objects)) == pytest.approx(anchors, abs=2)


def test_given_settings_are_kept_and_misfits_reported():
    config, line = inputs.fit_to_images(settings("--area_scale=0.5", "--anchor_sizes=8,300"), SIZES)
    assert (config.canvas.area_scale, config.detector.anchors.anchor_sizes) == (0.5, "8,300")
    assert (
        line
        == "objects as shown: 34 to 70 px (nine of ten), median 70, on a canvas of 528 x 704 px;"
        " --area_scale=0.5 --anchor_sizes=8,300; 100 % have no anchor of half to twice their"
        " size: an empty --anchor_sizes= fits them"
    )


def test_derived_settings_are_kept_by_the_run():
    """Other data later, say another image, do not change it; what is set is compared as ever."""
    config = settings()
    begun, line = inputs.fit_to_images(config, SIZES)
    assert line.endswith(
        f"--anchor_sizes={begun.detector.anchors.anchor_sizes} follow from the sizes of images and"
        " objects"
    )
    assert restored_settings(config, begun).canvas == begun.canvas
    assert restored_settings(config, begun).detector == begun.detector
    assert restored_settings(replace(config, area_scale=0.3), begun).canvas.area_scale == 0.3


def test_sizes_of_images_that_are_no_folder():
    found = Images([rectangle(*each) for each in RECTANGLES]).sizes()
    assert found.images.tolist() == [list(shape) for shape, _ in RECTANGLES]
    assert found.boxes.tolist() == [[y2 - y1, x2 - x1] for _, (y1, x1, y2, x2) in RECTANGLES]
    assert found.owner.tolist() == [*range(len(RECTANGLES))]
