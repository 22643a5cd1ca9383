"""Tables of files and classes as people have them."""

import re

import pytest

from cpc_tf.data.sources import label_file
from cpc_tf.texts import csv_lines
from tests.data.samples import write_files


@pytest.fixture
def read(tmp_path):
    """Reads a table with these contents."""

    def read(content):
        write_files(tmp_path, {"labels.csv": content})
        return label_file.read(str(tmp_path / "labels.csv"))

    return read


TWO = {"a/1.jpg": ("cat",), "2.jpg": ("dog",)}
TABLES = [
    ("a/1.jpg,cat\n2.jpg,dog\n", TWO),
    ("\ufeffFilename;Class\r\na/1.jpg;cat\r\n2.jpg;dog\r\n", TWO),
    ("a\\1.jpg\tcat\n\n./2.jpg\t dog \n2.jpg\tdog\n", TWO),
    ("\n  \nfile,label\na/1.jpg,cat\n2.jpg,dog\n", TWO),
    ("label,width,image\ncat,10,a/1.jpg\ndog,20,2.jpg\n", TWO),  # columns in any order, some unused
    ('"a, b.jpg","cat"\n"c;d.jpg",x\n', {"a, b.jpg": ("cat",), "c;d.jpg": ("x",)}),
    ("1.jpg,cat;dog; cat\n2.jpg,\n", {"1.jpg": ("cat", "dog"), "2.jpg": ()}),
    ('file;label\n1.jpg;"cat;dog"\n', {"1.jpg": ("cat", "dog")}),
    (
        csv_lines([["file", "label"], ["=1+1.jpg", "@x;-y"], ["'=2.jpg", "'a"]]),
        {"=1+1.jpg": ("@x", "-y"), "'=2.jpg": ("'a",)},
    ),
    ("1.jpg,cafe\u0301\n", {"1.jpg": ("caf\u00e9",)}),
]


@pytest.mark.parametrize(("content", "expected"), TABLES)
def test_tables(read, content, expected):
    assert read(content) == expected


REFUSED = [
    ("", "is empty"),
    ("file,label\n", "a header only"),
    ('{"images": [' + "1" * 200_000 + "]}", "which is no file and its class"),
    ("1.jpg\n", "line 1 is 1.jpg, which is no file and its class"),
    ("1.jpg,cat,3,4\n", "a header must name them: file,label"),
    ("1.jpg,cat\n2.jpg\n", "line 2 has 1 columns"),
    ("file;label\n1.jpg;cat\n2.jpg;cat;dog\n", "line 3 has 3 columns, .* needs quotes"),
    ("1.jpg,cat\n,dog\n", "line 2 names no file"),
    ("1.jpg,cat\n1.jpg,dog\n", "1.jpg has the class cat in line 1 and dog in line 2; keep one, or write .* cat;dog"),
    ("file,path,label\na,b,c\n", "several such columns"),
    ('1.jpg,cat\n"2.jpg,dog\n', "is no line of a CSV file"),
    (b"1.jpg,cat\n2.jpg,caf\xe9\n", "line 2 is not UTF-8"),
    (b"\xff\xfe1\0,\0a\0", "line 1 is not UTF-8"),
    ("1.jpg,c\0at\n", "not a text"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_is_no_such_table_is_refused(read, refused, content, message):
    said = refused(read, content)
    assert said.startswith("--labels=")
    assert re.search(message, said)


NAMES = ["1.jpg", "cats/2.JPG", "cats/3.jpg", "dogs/3.jpg", "dogs/v1.5.png", "cats/e\u0301.png"]


# Row -> the picture that it names.
ROWS = {
    "1.jpg": "1.jpg",
    "1": "1.jpg",
    "cats/2.JPG": "cats/2.JPG",
    "2.JPG": "cats/2.JPG",
    "2": "cats/2.JPG",
    "/home/me/pictures/cats/3.jpg": "cats/3.jpg",
    "pictures/dogs/3": "dogs/3.jpg",
    "v1.5": "dogs/v1.5.png",
    "cats/\u00e9.png": "cats/e\u0301.png",
    "4.jpg": None,
    "birds/4.jpg": None,
    "birds/2.JPG": None,  # another folder: not cats/2.JPG
}


def test_the_picture_of_a_row():
    for row, name in ROWS.items():
        found = label_file.match("labels.csv", {row: ("x",)}, NAMES)
        assert found == label_file.Matched({name: ("x",)} if name else {}, [] if name else [row]), row


def test_rows_that_can_mean_several_pictures_or_contradict_each_other(refused):
    assert "3.jpg can be each of cats/3.jpg, dogs/3.jpg" in refused(label_file.match, "t", {"3.jpg": ("x",)}, NAMES)
    rows = {"2": ("x",), "cats/2.JPG": ("y",)}
    assert "2 and cats/2.JPG are the same picture" in refused(label_file.match, "t", rows, NAMES)
    assert label_file.match("t", {"2": ("x",), "cats/2.JPG": ("x",)}, NAMES).of == {"cats/2.JPG": ("x",)}
