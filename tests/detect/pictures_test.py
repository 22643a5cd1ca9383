"""The images of a test: what is drawn, in which order, in which colours."""

import io

import numpy as np
import pytest
import tensorflow as tf
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from cpc_tf.data.decode import decode
from cpc_tf.detect import pictures, scoring
from cpc_tf.detect.scoring import Scene
from tests.detect.samples import found, truth

pytestmark = pytest.mark.drawn

HERE, THERE, ELSEWHERE = [10, 10, 60, 60], [10, 80, 60, 140], [70, 20, 95, 120]
NAMES = ("car", "cost $ & <dog>")
BLACK = np.zeros([100, 150, 3], np.uint8)


def scene(objects, detections=(), difficult=()):
    """Boxes of the class 0; detections are (box, score)."""
    marks = [i in difficult for i in range(len(objects))]
    return Scene(
        "$name_1",
        truth(objects, difficult=marks),
        found(*zip(*detections) if detections else ((), ())),
    )


GOOD = scene([HERE], [(HERE, 0.9)])
UNSURE = scene([HERE], [(HERE, 0.4)])  # not drawn
TWO_MISSED = scene([HERE, THERE], [(ELSEWHERE, 0.6)])
WRONG = scene([HERE], [(HERE, 0.9), (ELSEWHERE, 0.8)])
MORE_WRONG = scene([HERE], [(HERE, 0.9), (ELSEWHERE, 0.8), (THERE, 0.7)])
DIFFICULT = scene([HERE, THERE], [(HERE, 0.9)], difficult=[0, 1])


def test_worst_images_order_misses_then_confident_mistakes():
    scenes = [GOOD, WRONG, DIFFICULT, TWO_MISSED, UNSURE, MORE_WRONG]
    assert pictures.worst(scenes, 0.5, 0.5) == [3, 4, 5, 1, 0, 2]


def colours(png):
    """How many pixels of the image below the legend have the colour of each kind of box."""
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), float)[90:] / 255
    return [
        int((np.abs(pixels - to_rgb(kind["color"])).max(-1) < 0.02).sum())
        for kind in pictures.KINDS
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shown", "kinds"),
    [
        (GOOD, {"object, found", "detection, right"}),
        (TWO_MISSED, {"object, missed", "detection, wrong"}),
        (DIFFICULT, {"object, difficult"}),
        (UNSURE, {"object, missed"}),
    ],
)
def test_boxes_are_coloured_by_outcome(shown, kinds):
    counts = colours(pictures.draw_sheet([shown], [BLACK], NAMES))
    assert {kind["label"] for kind, count in zip(pictures.KINDS, counts) if count > 50} == kinds


@pytest.mark.slow
def test_a_legend_names_only_kinds_that_may_be_there(monkeypatch):
    legends = []
    monkeypatch.setattr(
        Figure,
        "legend",
        lambda self, handles, **_: legends.append([h.get_label() for h in handles]),
    )
    for shown in (GOOD, DIFFICULT):
        pictures.draw_sheet([shown], [BLACK], NAMES)
    assert [("object, difficult" in labels) for labels in legends] == [False, True]


@pytest.mark.slow
def test_sheet_and_curves_handle_shapes_and_undetected_classes():
    images = [np.zeros([20 + 10 * i, 60, 3], np.uint8) for i in range(7)]
    png = pictures.draw_sheet([GOOD] * 7, images, NAMES)
    width, height = Image.open(io.BytesIO(png)).size
    assert width > 1500
    assert height > 700
    width, height = Image.open(
        io.BytesIO(pictures.draw_curves(scoring.score([scene([HERE])], 2), NAMES))
    ).size
    assert width >= 400
    assert height >= 200


@pytest.mark.slow
@pytest.mark.filterwarnings("error")  # of letters that a font does not have
def test_names_without_a_font_are_drawn_as_numbers(caplog):
    unknown = (  # which Matplotlib would write from left to right, whatever the font
        "\u0643\u0644\u0628"
    )
    named = TWO_MISSED._replace(name=unknown)
    names = (unknown, *NAMES[1:])
    pictures.draw_sheet([GOOD, named], [BLACK] * 2, names)
    pictures.draw_curves(scoring.score([GOOD, named], 2), names)
    said = "numbers are drawn for names that no installed font can show:"
    assert caplog.messages == [f"{said} class 0 is {unknown}", f"{said} image 1 is {unknown}"]


@pytest.mark.slow
def test_images_come_in_the_order_asked_for():
    class Source:
        decode = staticmethod(decode)

        def ordered(self):
            encoded = [tf.io.encode_png(np.full([10, 20 + i, 3], i, np.uint8)) for i in range(5)]
            return tf.data.Dataset.from_tensor_slices({"counter": np.arange(5), "encoded": encoded})

    images = pictures.images_at(Source(), [3, 0])
    assert [image.shape for image in images] == [(10, 23, 3), (10, 20, 3)]
    assert images[0][5, 10].tolist() == [3, 3, 3]
