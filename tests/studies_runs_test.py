"""Studies whose runs follow from records, and the drawings that one learns from."""

import numpy as np
import pytest
from PIL import Image

from studies.clipart import drawings
from studies.recipe import study as recipe
from studies.supervised import study as supervised


def test_trials_have_equal_core_seconds():
    for trial in recipe.TRIALS.values():
        spent = trial.epochs * trial.cost / trial.share
        assert spent == pytest.approx(recipe.EPOCHS, rel=0.01)


@pytest.mark.parametrize(("top1", "wanted"), [
    ({}, [10, 20]),
    ({10: 0.8}, [10, 20]),
    ({10: 0.8, 20: 0.81}, [10, 20, 40]),  # half a point or more
    ({10: 0.8, 20: 0.804}, [10, 20]),
    ({10: 0.8, 20: 0.81, 40: 0.81}, [10, 20, 40]),
])  # fmt: skip
def test_lengths_double_until_nothing_is_gained(top1, wanted):
    assert supervised._lengths(10, top1) == wanted


@pytest.fixture
def package(tmp_path):
    """A folder as that of openclipart-png: a black square on transparent ground in each subject."""
    for number, subject in enumerate([*drawings.HELD_OUT, "shapes", "unsorted"]):
        pixels = np.zeros([80, 100, 4], np.uint8)
        pixels[20 : 40 + number, 30:60, 3] = 255
        (tmp_path / "png" / subject).mkdir(parents=True)
        Image.fromarray(pixels).save(tmp_path / "png" / subject / "square.png")
    return tmp_path / "png"


def test_drawings_are_copied_on_white_ground(package, tmp_path):
    counts = drawings.prepare(str(package), str(tmp_path / "out"))
    assert counts == {"held_out": len(drawings.HELD_OUT), drawings.LEARNED: 2}
    copy = Image.open(tmp_path / "out" / drawings.LEARNED / "shapes" / "square.png")
    assert (copy.getpixel((0, 0)), copy.getpixel((40, 30))) == ((255, 255, 255), (0, 0, 0))


def test_copies_of_held_out_drawings_are_left_out(package, tmp_path):
    Image.open(package / "food/square.png").save(package / "unsorted/again.png")
    Image.open(package / "shapes/square.png").resize([50, 50]).save(package / "shapes/icon.png")
    counts = drawings.prepare(str(package), str(tmp_path / "out"))
    assert counts[drawings.LEARNED] == 2
