"""Lists of images: what their lines mean."""

import pytest

from cpc_tf.boxes import layout
from cpc_tf.core import texts
from cpc_tf.core.settings import ConfigError
from tests.data.samples import write_files

PLACES = ("", "./", "JPEGImages/", "images/", "x/Annotations/", "/data/voc/", "C:\\voc\\")
# Names of images, and the lines that mean them; lines that mean none stay as they are.
LINES = {
    "a": [f"{place}a{end}" for place in PLACES for end in ("", ".jpg", ".PNG", ".xml", "  ")],
    "b": ["b.jpg"],
    "b.c": ["b.c", "b.c.jpg", "JPEGImages/b.c"],
    "d e": ["d e", "d e.jpg", "/my data/d e.jpg"],
    "day/a": ["day/a.jpg", "JPEGImages/day/a", "/voc/day/JPEGImages/a"],
    "day/b": ["/home/voc/day/b.jpg"],
    "caf\u00e9": ["cafe\u0301.jpg"],
    **{line: [line] for line in ("b.v2", "c", "/", ".jpg")},
}
KEYS = {*LINES, "1"} - {"b.v2", "c", "/", ".jpg"}


@pytest.mark.parametrize("name", LINES)
def test_what_a_line_of_a_list_means(tmp_path, name):
    path = tmp_path / "train.txt"
    for line in LINES[name]:
        path.write_text(f"\ufeff{line}\r\n\r\n{line}\r\n")
        assert layout.read_list(str(path), KEYS) == ([name], ""), line


def test_boxes_of_two_formats_are_refused(tmp_path):
    """Of JSON files nothing tells whether they are annotations: they count where there are no
    others.
    """
    write_files(tmp_path, dict.fromkeys(("a.jpg", "a.xml", "readme.txt", "package.json"), b""))
    assert layout.format_of(str(tmp_path)) == ("voc", "1 XML file with the names of images")
    tables = {"a.csv": b"filename;class;xmin;ymin;xmax;ymax", "b.csv": b"file,label"}
    write_files(tmp_path / "csv", {"a.jpg": b"", **tables})
    assert layout.format_of(f"{tmp_path}/csv") == ("csv", "1 CSV file with columns of boxes")
    write_files(tmp_path, {"a.txt": b""})
    with pytest.raises(
        ConfigError,
        match="^--boxes=.*: has 1 XML file .* and 1 text file .*; choose one .* --dataset=voc:",
    ):
        layout.format_of(str(tmp_path))


@pytest.mark.parametrize(
    "line", ["a 1", "a -1", "d e  0", "a.jpg\t1", "x/a.jpg 1,2,3,4,0 5,6,7,8,1"]
)
def test_ignored_text_after_a_name_is_reported(tmp_path, line):
    path = tmp_path / "list.txt"
    path.write_text(f"{line}\nb b.xml\n")
    keys, said = layout.read_list(str(path), KEYS)
    assert keys == ["d e" if line.startswith("d e") else "a", "b"]
    what = "only the names of images are read, not what follows them in 1 of 2 lines, e.g."
    assert said == f"{path}: {what} {texts.shown(line)}"
