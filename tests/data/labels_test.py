"""Tables of files and classes as people have them."""

import re

import pytest

from cpc_tf.core.texts import csv_lines
from cpc_tf.data import labels
from tests.data.samples import write_files


@pytest.fixture
def read(tmp_path):
    """Reads a table with these contents."""

    def read(content):
        write_files(tmp_path, {"labels.csv": content})
        return labels.read(str(tmp_path / "labels.csv")).classes

    return read


TWO = {"a/1.jpg": ("cat",), "2.jpg": ("dog",)}
TABLES = [
    ("a/1.jpg,cat\n2.jpg,dog\n", TWO),
    ("\ufeffFilename;Class\r\na/1.jpg;cat\r\n2.jpg;dog\r\n", TWO),
    (
        "a\\1.jpg\tcat\n\n./2.jpg\t dog \n2.jpg\tdog\n",
        {"a\\1.jpg": ("cat",), "./2.jpg": ("dog",), "2.jpg": ("dog",)},
    ),
    ("\n  \nfile,label\na/1.jpg,cat\n2.jpg,dog\n", TWO),
    ("label,width,image\ncat,10,a/1.jpg\ndog,20,2.jpg\n", TWO),  # columns in any order, some unused
    ('"a, b.jpg","cat"\n"c;d.jpg",x\n', {"a, b.jpg": ("cat",), "c;d.jpg": ("x",)}),
    ("1.jpg,cat;dog; cat\n2.jpg,\n", {"1.jpg": ("cat", "dog"), "2.jpg": None}),
    ('file;label\n1.jpg;"cat;dog"\n', {"1.jpg": ("cat", "dog")}),
    (
        csv_lines([["file", "label"], ["=1+1.jpg", "@x;-y"], ["'=2.jpg", "'a"]]),
        {"=1+1.jpg": ("@x", "-y"), "'=2.jpg": ("'a",)},
    ),
    ("1.jpg,cafe\u0301\n", {"1.jpg": ("caf\u00e9",)}),
    ("Image ID,group,Tags,x\n1.jpg,p1,cat,5\n2.jpg,,dog\n", {"1.jpg": ("cat",), "2.jpg": ("dog",)}),
    # Several classes as programs write them; nothing is no label yet.
    (
        '1.jpg,"[""cat"", ""dog""]"\n2.jpg,"[\'cat\']"\n',
        {"1.jpg": ("cat", "dog"), "2.jpg": ("cat",)},
    ),
    (
        '1.jpg,"{""choices"": [""cat"", ""dog""]}"\n2.jpg,[0]\n',
        {"1.jpg": ("cat", "dog"), "2.jpg": ("0",)},
    ),
    ("1.jpg,No class\n2.jpg,;\n", {"1.jpg": (), "2.jpg": None}),
    # As Excel writes it; other tables have the columns' separator there, too.
    ("\ufeffsep=;\r\nFile;Class\r\na/1.jpg;cat\r\n2.jpg;dog\r\n", TWO),
    ('"sep=|"\na/1.jpg|cat\n2.jpg|dog\n', TWO),
    # a box for each image
    (
        "fname,x1,y1,x2,y2,class,file\nz,1,2,3,4,cat,a/1.jpg\nz,1,2,3,4,dog,2.jpg\n",
        TWO,
    ),
    (
        "1.jpg,black & white\n2.jpg,crane/machine\n3.jpg,crane\n4.jpg,New York\n",
        {
            **{
                "1.jpg": ("black & white",),
                "2.jpg": ("crane/machine",),
                "3.jpg": ("crane",),
                "4.jpg": ("New York",),
            },
        },
    ),
]


@pytest.mark.parametrize(("content", "expected"), TABLES)
def test_tables(read, content, expected):
    assert read(content) == expected


REFUSED = [
    ("", "is empty"),
    ("file,label\n", "a header only"),
    ("[1" + "1" * 200_000, "which is not a file and its class"),
    (
        '{"file_name": "1.jpg", "label": "cat"}\n',
        "is JSON, which is not read here; it needs lines such as",
    ),
    ('[\n  {"file": "1.jpg"}]', "is JSON"),
    ("1.jpg cat\n", "not a file and its class separated by a comma, a semicolon or a tab"),
    ("sep=;\n1.jpg;cat\n2.jpg;no class;cat\n", "line 3 has 3 columns"),
    (
        "filename,class,xmin,ymin,xmax,ymax\n1.jpg,cat,1,2,3,4\n1.jpg,cat,5,6,7,8\n",
        "is a table of boxes, with 1.jpg in lines 2 and 3; .* boxes are read by --boxes=FOLDER",
    ),
    ("1.jpg\n", "line 1 is 1.jpg, which is not a file and its class"),
    ("1.jpg,cat,3,4\n", "a header must name the two: file,label"),
    ("1.jpg,cat\n2.jpg\n", "line 2 has 1 columns"),
    ("file;label\n1.jpg;cat\n2.jpg;cat;dog\n", "line 3 has 3 columns, .* needs quotes"),
    ("1.jpg,cat\n,dog\n", "line 2 names no file"),
    (
        "1.jpg,cat\n1.jpg,dog\n",
        (
            "1.jpg has the class cat in line 1 and the class dog in line 2; keep one, or write .*"
            " cat;dog; if these are two images in different folders, write the path of each"
        ),
    ),
    ("file,path,label\na,b,c\n", "several columns for files"),
    ('1.jpg,cat\n"2.jpg,dog\n', "is not a line of CSV"),
    (b"1.jpg,cat\n2.jpg,caf\xe9\n", "line 2 is not UTF-8"),
    (b"\xff\xfe1\0,\0a\0", "line 1 is not UTF-8"),
    ("1.jpg,c\0at\n", "not a text"),
    ("file,group\na,b\n", "no column label"),
    ("1.jpg,cat\n2.jpg,no class;cat\n", "line 2 has no class beside a class"),
    ("1.jpg,cat\n2.jpg,[]\n", "line 2 has an empty list; write no class, or leave it blank"),
    (
        '1.jpg,cat\n2.jpg,"[cat, dog]"\n',
        r"line 2 has the list \[cat, dog\]; write several classes as cat;dog",
    ),
    ("1.jpg,cat\n2.jpg,\"['cat' 'dog']\"\n", "line 2 has the list"),
    (
        "1.jpg,cat|outdoor\n2.jpg,cat\n",
        r"the class cat\|outdoor joins classes of the table by '\|'; .* cat;dog",
    ),
    (
        '1.jpg,"cat, dog"\n2.jpg,"dog, cow"\n3.jpg,cow\n4.jpg,cat\n',
        "joins classes of the table by ','",
    ),
    ("1.jpg,cat+dog\n2.jpg,dog\n3.jpg,cat\n", r"cat\+dog joins classes"),
    ("1.jpg,a b\n2.jpg,b\n3.jpg,a\n", "the class a b joins classes of the table by ' '"),
    (
        "file,label,group\n1.jpg,cat,p\n1.jpg,cat,q\n",
        "the class cat and the group p in line 2 and .* group q in",
    ),
]


@pytest.mark.parametrize(("content", "message"), REFUSED)
def test_what_is_no_such_table_is_refused(read, refused, content, message):
    said = refused(read, content)
    assert said.startswith("--labels=")
    assert re.search(message, said)


NAMES = ["1.jpg", "cats/2.JPG", "cats/3.jpg", "dogs/3.jpg", "dogs/v1.5.png", "cats/e\u0301.png"]


# Row -> the image that it names.
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
        found = labels.match("labels.csv", labels.Content({row: ("x",)}), NAMES)
        assert found[:2] == ({name: ("x",)} if name else {}, [] if name else [row]), row


def test_unambiguous_row_ignores_letter_case(refused):
    rows = {name: ("x",) for name in ("1.JPG", "CATS/2.jpg", "dogs/V1.5.PNG")}
    found = labels.match("t", labels.Content(rows), NAMES)
    assert ([*found.classes], found.absent) == (["1.jpg", "cats/2.JPG", "dogs/v1.5.png"], [])
    with_both = labels.match("t", labels.Content({"a.jpg": ("x",)}), ["a.jpg", "A.JPG"])
    assert [*with_both.classes] == ["a.jpg"]
    assert "is ambiguous: it can be" in refused(
        labels.match, "t", labels.Content({"a.Jpg": ("x",)}), ["a.jpg", "A.JPG"]
    )


def test_path_to_another_folder_matches_no_image(tmp_path):
    """Two recordings have frames of the same names: the labels of day 1 were given to the images of
    day 2.
    """
    for day in ("day1", "day2"):
        (tmp_path / day).mkdir()
    pictures, root = ["f1.jpg", "f2.jpg"], str(tmp_path / "day2")

    def match(*rows):
        table = labels.Content({row: ("x",) for row in rows})
        found = labels.match(str(tmp_path / "labels.csv"), table, pictures, root)
        return {row: found.rows.get(row) for row in rows}, found.cut, found.elsewhere

    assert match("day1/f1.jpg") == ({"day1/f1.jpg": None}, [], ["day1"])
    assert match(f"{tmp_path}/day1/f1.jpg")[2] == [f"{tmp_path}/day1"]
    for row in ("day2/f1.jpg", "./f1.jpg", "./day2/f1.jpg", ".\\f1.jpg"):
        assert match(row) == ({row: "f1.jpg"}, (), [])
    assert match("/of/another/day2/f1.jpg") == ({"/of/another/day2/f1.jpg": "f1.jpg"}, (), [])
    # Folders that are nowhere are left out, unless other rows lead here.
    assert match("/old/f1.jpg") == ({"/old/f1.jpg": "f1.jpg"}, ["/old"], [])
    assert match("/old/f1.jpg", "day2/f2.jpg") == (
        {"/old/f1.jpg": None, "day2/f2.jpg": "f2.jpg"},
        (),
        [],
    )


@pytest.mark.parametrize(
    ("first", "label", "title"), [("what", "kind", "what"), ("what", "x", ""), ("9.jpg", "y", "")]
)
def test_first_line_is_header_if_class_is_unique(first, label, title):
    table = labels.Content({first: (label,), "1.jpg": ("x",)}, {"1.jpg": "p1"}, first)
    found = labels.match("t", table, NAMES)
    assert found[:4] == ({"1.jpg": ("x",)}, [] if title else [first], {"1.jpg": "p1"}, title)


def test_ambiguous_or_contradictory_rows_are_refused(refused):
    assert "3.jpg is ambiguous: it can be cats/3.jpg, dogs/3.jpg" in refused(
        labels.match, "t", labels.Content({"3.jpg": ("x",)}), NAMES
    )
    rows = labels.Content({"2": ("x",), "cats/2.JPG": ("y",)})
    assert "2 and cats/2.JPG are the same image" in refused(labels.match, "t", rows, NAMES)
    rows = labels.Content({"2": ("x",), "cats/2.JPG": ("x",)})
    assert labels.match("t", rows, NAMES).classes == {"cats/2.JPG": ("x",)}


def test_class_names_with_spaces_may_be_several_classes():
    assert labels.sharing_words({"cat", "cat photo", "cup photo", "cup"}) == [
        "cat photo",
        "cup photo",
    ]
    assert labels.sharing_words({"brown bear", "polar bear", "bear", "sea lion", "sea  lion"}) == []


class Counted(list):
    """A list that counts how often it is read through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


def test_joining_captions_takes_constant_work_per_caption():
    few, many = (Counted(f"a {i} caption {i + 1}" for i in range(count)) for count in (3, 30))
    labels.joined(few)
    labels.joined(many)
    assert few.times == many.times
