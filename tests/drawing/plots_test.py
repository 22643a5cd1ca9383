"""Names of any script and length in images."""

import functools
import warnings

import pytest
from matplotlib import font_manager

from cpc_tf.drawing import plots

pytestmark = pytest.mark.drawn

CHINESE, ARABIC, GREEK = "\u7ea2\u7ec6\u80de", "\u0643\u0644\u0628", "\u03b1\u03b2"
HINDI, EMOJI = "\u0939\u093f\u0928\u094d\u0926\u0940", "\U0001f415\u200d\U0001f9ba"


@pytest.fixture(autouse=True)
def _only_the_font_of_matplotlib(monkeypatch):
    own = [entry for entry in font_manager.fontManager.ttflist if "DejaVu" in entry.name]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    for cached in (plots.drawable, plots._family):
        monkeypatch.setattr(plots, cached.__name__, functools.cache(cached.__wrapped__))


def test_undrawable_names_are_numbers_listed_in_one_line(caplog):
    names = ("caf\u00e9 $x", CHINESE, ARABIC, GREEK, HINDI, EMOJI, "two\nlines")
    wanted = ("caf\u00e9 $x", "class 1", "class 2", GREEK, "class 4", "class 5", "class 6")
    assert plots.drawable(names, "class") == plots.drawable(names, "class") == wanted
    (line,) = caplog.messages
    assert (
        line
        == f"numbers are drawn for names that no installed font can show: class 1 is {CHINESE},"
        f" class 2 is {ARABIC}, class 4 is {HINDI}, class 5 is \U0001f415\\u200d\U0001f9ba,"
        " class 6 is two\\nlines"
    )


def test_a_font_that_has_the_letters_is_taken(caplog, monkeypatch):
    monkeypatch.setattr(plots, "OWN_FONT", "DejaVu Sans Mono")
    name = "\u0370"  # a letter that DejaVu Sans and others have, but not this one
    assert plots.drawable((name,), "class") == (name,)
    assert not caplog.messages
    (family,) = plots.families(["plain", name])
    assert family.startswith("DejaVu Sans")
    assert family != "DejaVu Sans Mono"


def test_a_figure_without_warnings_of_fonts():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plots.png(lambda canvas, theme: canvas.subplots().set_title(f"plain {GREEK}"), 2, 2)


def test_names_fit_their_pictures():
    names = ["cat", "IMG_20230915_WA0007.JPG", "犬の写真がたくさん"]
    assert plots.shortened(names, 12) == ["cat", "IMG_2023091…", "犬の写真が…"]
    assert plots.shortened(names, 12, ends=True) == ["cat", "…_WA0007.JPG", "…がたくさん"]
