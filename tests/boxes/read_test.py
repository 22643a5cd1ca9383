"""What is read from folders with boxes in VOC's, COCO's and YOLO's formats, and what is said of
what is wrong there.
"""

import collections
import re

import pytest

from cpc_tf.core.settings import ConfigError
from tests.boxes.samples import (
    CAT,
    HEIGHT,
    OURS,
    ROW,
    WIDTH,
    box,
    cats,
    coco,
    contents,
    entries,
    image,
    levels,
    lines,
    many,
    objects,
    one,
    ours,
    pairs,
    picture,
    pictures,
    rows,
    xml,
)

pytestmark = pytest.mark.usefixtures("unchecked")

# An image {n} of a split {s}, or {S} as others call it; its annotation; further files; what JSON
# calls the image.
Layout = collections.namedtuple(
    "Layout", ("kind", "image", "annotation", "more", "called"), defaults=({}, "{n}.png")
)
SPLITS = [("train", "train", "a.b"), ("val", "Valid", "d e")]
LISTS = {"ImageSets/Main/train.txt": "a.b", "ImageSets/Main/val.txt": "x/d e.png"}
LISTS_BY_DAY = {
    "ImageSets/Main/train.txt": "day/a.b",
    "ImageSets/Main/val.txt": "JPEGImages/day/d e.png",
}
NAMES = "cat\ndog\n"


def yaml(train, val):
    """YOLO's data.yaml as a tool wrote it."""
    return (
        f"path: ../mine  # where\ntrain: {train}\nval: {val}\ntest:\nnc: 2\nnames: ['cat', 'dog']\n"
    )


IN_YAML = {
    "my.yml": yaml("1.txt", "2.txt"),
    "1.txt": "./images/a.b.png\n",
    "2.txt": "images/d e.png",
}
DARKNET = {
    "train.txt": "data/obj/a.b.png\n",
    "valid.txt": "data/obj/d e.png",
    "obj.names": NAMES,
    "obj.data": "x",
}
LABEL_IMG = {"train/classes.txt": NAMES, "val/classes.txt": NAMES}
LAYOUTS = [
    Layout("voc", "{S}/{n}.png", "{S}/{n}.xml", {"README.dataset.txt": "from a place"}),
    Layout("voc", "{s}/images/{n}.png", "{s}/annotations/{n}.xml"),
    Layout("voc", "{S}/images/{n}.PNG", "{S}/labels/{n}.XML"),
    Layout("voc", "{s}/image/{n}.png", "{s}/label/{n}.xml"),
    Layout("voc", "{s}/pics/{n}.png", "{s}/drawn_by_me/{n}.xml"),
    Layout("voc", "Images/{s}/{n}.png", "Annotations/{s}/{n}.xml"),
    Layout("voc", "{s}/day/1/{n}.png", "{s}/day/1/{n}.xml"),
    Layout("voc", "JPEGImages/{n}.png", "Annotations/{n}.xml", LISTS),
    Layout("voc", "images/{n}.png", "annotations/xmls/{n}.xml", LISTS),  # as Oxford's pets
    Layout("voc", "{n}.png", "{n}.xml", LISTS),
    Layout("voc", "images/{n}.png", "images/{n}.xml", LISTS),
    Layout("voc", "JPEGImages/day/{n}.png", "Annotations/day/{n}.xml", LISTS_BY_DAY),
    Layout(
        "coco",
        "{s}2017/{n}.png",
        "annotations/instances_{s}2017.json",
        {"annotations/captions_train.json": "[]"},
    ),
    Layout("coco", "{S}/{n}.png", "{S}/_annotations.coco.json"),  # Roboflow
    Layout("coco", "{S}/data/{n}.png", "{S}/labels.json"),  # FiftyOne
    Layout("coco", "{s}/images/{n}.png", "{s}/annotations/instances_default.json"),
    Layout("coco", "images/{n}.png", "annotations/{s}.json"),
    Layout("coco", "some/where/{n}.png", "{s}.json", {}, "where\\{n}.png"),
    Layout("coco", "some/{s}/{n}.png", "annotations/{s}.json", {}, "some/{s}/{n}.png"),
    Layout(
        "yolo",
        "images/{s}/{n}.png",
        "labels/{s}/{n}.txt",
        {"data.yaml": yaml("images/train", "images/val")},
    ),
    Layout(
        "yolo",
        "{s}/images/{n}.png",
        "{s}/labels/{n}.txt",
        {"data.yaml": yaml("../train/images", "../val/images")},
    ),
    Layout("yolo", "image/{s}/{n}.png", "label/{s}/{n}.txt", {"classes.txt": NAMES}),
    Layout(
        "yolo",
        "{s}_own/{n}.png",
        "{s}_own/{n}.txt",
        {"data.yaml": yaml("train_own", "['val_own']")},
    ),
    Layout("yolo", "images/{n}.png", "labels/{n}.txt", IN_YAML),
    Layout("yolo", "obj/{n}.png", "obj/{n}.txt", DARKNET),
    Layout("yolo", "{s}/{n}.png", "{s}/{n}.txt", LABEL_IMG),
    # Roboflow
    Layout("csv", "{S}/{n}.png", "{S}/_annotations.csv", {"notes.csv": "file,label\na.b.png,cat"}),
    Layout("csv", "images/{n}.png", "data/{s}_labels.csv"),  # TensorFlow's Object Detection API
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout", LAYOUTS, ids=lambda layout: f"{layout.kind} {layout.image} {layout.annotation}"
)
def test_layouts(opened, warnings, layout):
    files, names = dict(layout.more), {}
    for level, (split, other, name) in enumerate(SPLITS):
        path, annotation, called = (
            part.format(s=split, S=other, n=name) for part in layout[1:3] + layout[4:]
        )
        files |= {
            path: picture(level),
            annotation: {"voc": xml(CAT), "coco": one(called), "yolo": ROW, "csv": lines(called)}[
                layout.kind
            ],
        }
        names[split] = re.sub("(jpeg)?images?/", "", path, flags=re.IGNORECASE)[: -len(".png")]
    for level, (split, name) in enumerate(names.items()):
        source = opened(layout.kind, files, split)
        assert source.class_names == ("cat",)  # no dog has a box
        assert contents(source) == [cats(name)]
        assert levels(source) == [level]
    assert warnings == []


Case = collections.namedtuple(
    "Case", ("kind", "files", "splits", "warnings", "classes"), defaults=((), None)
)
A, AB = pictures("a.png"), pictures("a.png", "b.png")
IMAGES_AB = [image(1, "a.png"), image(2, "b.png")]
ONE_EACH = coco(IMAGES_AB, [box(1), box(2, 90)])
WHOLE = [0.0, 0.0, HEIGHT, WIDTH]
DOG, NOTHING = ([OURS], ["dog"], [False]), ([], [], [])
SOME_LISTS = {
    **many(2),
    **{f"ImageSets/Main/{split}.txt": "000" for split in ("train", "cat_val", "cat_train")},
    **{
        "ImageSets/Main/val.txt": "001",
        "ImageSets/Main/my_own.txt": "001\n000",
        "ImageSets/Main/notes.md": "",
    },
}
LISTS_AT_TOP = {
    **pairs("JPEGImages/a", "JPEGImages/b"),
    **{
        "trainval.txt": "JPEGImages/b.png Annotations/b.xml",
        "valid.txt": "a.png",
        "classes.txt": "cat",
    },
}
# which are expected and not named
MASKS = pictures("SegmentationClass/a.png", "annotations/masks/a.png")
NOT_COUNTED = {
    "Annotations/old/xml/a.xml": xml(),
    "a.xml": xml(),
    **pictures("JPEGImages/a.gif", "preview.png"),
}
OTHERS = "are left out, since others have their names but for the ending or such folders"
BAD_OBJECTS = [
    ("cat", 0, -3, 99, 99, 1),
    ("cat", 5, 5, 5, 7),  # no width
    ("cat", 5, 7, 9, 5),  # upside down
    ("cat", 13, 1, 15, 5),  # beside the image, if not beside what the annotation takes for it
    ("dog", "left", 1, 5, 5),
    ("cat", "nan", 1, 5, 5),
    ("", 1, 1, 5, 5),
    ("zebra", 2, 3, 5, 6),
]
# around both: our box
POLYGON = box(1, bbox=(), segmentation=[[1, 2, 5, 2, 5, 4], [1.5, 3, 4, 6, 3, 3]])
RLE = box(1, bbox=(), segmentation={"counts": [9, 4, 83], "size": [HEIGHT, WIDTH]})
BAD_BOXES = [(1, 1, 0, 4), (5, 5, -2, 4), (WIDTH, 0, 5, 5), (1, 2, 3), ("1", 2, 3, 4)]
BAD_ROWS = (  # without area within the image
    "1 0.5 0.5 0 0.5\n1 0.5 0.5 0.5 -0.5\n1 -0.5 0.5 0.5 0.5\n"
)
BAD_ROWS += (
    "1 0.5 0.5 0.5\n1 0.5 0.5 0.5 x\n1 0.5 0.5 nan 0.5\n1 0.5 0.5 0.5 0.5 0.9 1 1\n1 3 2 4 4\n"
)
GOOD_ROWS = "\ufeff" + rows(600).replace("\n", "\r\n")
A_LITTLE_BEYOND = "0 0.5 0.5 1.02 0.5 0.7 0.9\n1 0.890625 0.5 0.25 0.5"
TWO_SPLITS = {f"labels/{s}/{s}.txt": ROW for s in ("train", "test")}
TWO_SPLITS |= pictures("images/train/train.png", "images/test/test.png")


def in_json(*boxes, **size):
    return {**A, "x.json": coco([image(1, "a.png", **size)], boxes)}


def filename(text):
    """XML that says that it is of this image."""
    return xml(CAT).replace(b"<size>", f"<filename>{text}</filename><size>".encode())


# Files, {split: contents}, the ends of the warnings of the last split, and the classes of all where
# they matter.
CASES = {
    "images in the order of a list": Case(
        "voc",
        {
            **pictures("JPEGImages/a.jpg", "JPEGImages/b.JPG", "JPEGImages/c.png"),
            "Annotations/a.xml": xml(("dog", 1, 1, 12, 8), (*CAT, 1)),
            "Annotations/b.xml": xml(),
            "Annotations/c.xml": xml(("zebra", 1, 1, 2, 2)),
            "ImageSets/Main/trainval.txt": "\ufeffb\r\na\r\n\r\na\r\n",
        },
        {"trainval": [("b", *NOTHING), ("a", [WHOLE, OURS], ["dog", "cat"], [False, True])]},
        ["1 of 2 images have no objects, 0 of them no annotation: JPEGImages/b.JPG"],
        ("cat", "dog", "zebra"),
    ),
    "lists of one class are no splits": Case(
        "voc", SOME_LISTS, {"my_own": [cats("001"), cats("000")], "validation": [cats("001")]}
    ),
    "lists at the top": Case("voc", LISTS_AT_TOP, {"trainval": [cats("b")], "val": [cats("a")]}),
    "the same name in each split": Case(
        "voc",
        {**pairs("train/same", "valid/same"), "valid/same.xml": xml(*objects(2))},
        {"train": [cats("train/same")], "val": [cats("valid/same", 2)]},
    ),
    "images beside the folders of splits": Case(
        "voc",
        pairs("train/a", "val/a", "b"),
        {"train": [cats("train/a")]},
        ["/voc: 1 of 3 images are beside the folders of the splits and are left out: b.png"],
    ),
    "images and annotations that do not count": Case(
        "voc",
        {**pairs("JPEGImages/a"), **NOT_COUNTED, **MASKS},
        {"train": [cats("a")]},
        [
            "/voc: 1 images are left out, since they are not in JPEGImages: preview.png",
            f"/voc: 1 images {OTHERS}: JPEGImages/a.png",
            f"/voc: 1 annotations {OTHERS}: a.xml",
            "/voc: 1 of 2 annotations match no image by name and are left out: old/a",
        ],
    ),
    "annotations that say they belong to another image": Case(
        "voc",
        {
            **many(3),
            "Annotations/000.xml": filename("002.jpg"),
            "Annotations/001.xml": filename("as_it_was_called.jpg"),
            "Annotations/gone.xml": xml(CAT),
        },
        {"train": [cats("000"), cats("001"), cats("002")]},
        [
            "/voc: 1 of 4 annotations match no image by name and are left out: gone",
            (
                "/voc: 1 of 4 annotations name another image in <filename>; the name of the XML"
                " file itself is used: 000"
            ),
        ],
    ),
    "boxes are cut off at the real border and bad ones left out": Case(
        "voc",
        {
            "a.xml": xml(*BAD_OBJECTS, *objects(300), size=(0, 0)),
            "b.xml": xml(CAT, size=(0, 0)),
            **AB,
        },
        {
            "train": [
                (
                    "a",
                    [WHOLE, OURS, *ours(300)],
                    ["cat", "zebra", *["cat"] * 300],
                    [True, *[False] * 301],
                ),
                cats("b"),
            ]
        },
        [
            (
                "/voc: 3 of 309 boxes (0.971 %) have no name or no <bndbox> of four numbers and are"
                " left out; "
            ),
            (
                "/voc: 2 of 309 boxes (0.647 %) reach beyond their images by more than 5 % and are"
                " cut off at the bor"
            ),
            "/voc: 3 of 309 boxes (0.971 %) have no area within the image and are left out; ",
        ],
        ("cat", "dog", "zebra"),  # whose boxes are bad does not matter
    ),
    "crowds are difficult and images without boxes negatives": Case(
        "coco",
        {
            **AB,
            **pictures("c.png"),
            "x.json": coco(IMAGES_AB, [box(1), box(1, 90, (0, 0, WIDTH, HEIGHT + 1.9), iscrowd=1)]),
        },
        {"train": [("a", [OURS, WHOLE], ["cat", "dog"], [False, True]), ("b", *NOTHING)]},
        [
            "/coco: 1 of 3 images are in no JSON file and are left out: c.png",
            "1 of 2 images have no objects, 0 of them no annotation: b.png",
        ],
    ),
    "an image in two JSON files has its boxes once": Case(
        "coco",
        {**AB, "train.json": one("a.png"), "trainval.json": ONE_EACH},
        {"trainval": [cats("a"), ("b", *DOG)]},
    ),
    "an image with other boxes in another JSON file": Case(
        "coco",
        {
            **AB,
            "train.json": one("a.png"),
            "trainval.json": ONE_EACH.replace("[1, 2, 4, 4]", "[1, 2, 3, 3]", 1),
        },
        {"trainval": [cats("a"), ("b", *DOG)]},
        ["1 of 2 images have different boxes in an earlier JSON file, which are used: a"],
    ),
    "images of one name but for the ending": Case(
        "coco",
        {**pictures("a.png", "a.jpg"), "x.json": ONE_EACH.replace("b.png", "a.jpg")},
        {"train": [cats("a"), ("a.jpg", *DOG)]},
    ),
    "bad boxes in JSON": Case(
        "coco",
        in_json(*entries(1, 300), *(box(1, 1, bbox) for bbox in BAD_BOXES), box(7), RLE, height=0),
        {"train": [cats("a", 300)]},
        [
            (
                "1 of 307 boxes (0.326 %) have an image_id that x.json does not name and are left"
                " out; "
            ),
            (
                "1 of 307 boxes (0.326 %) have a mask in RLE, which is not read, and no bbox and"
                " are left out; "
            ),
            (
                "2 of 305 boxes (0.656 %) have no known category_id, or neither a bbox of four"
                " numbers nor a polygon and"
            ),
            (
                "1 of 305 boxes (0.328 %) reach beyond their images by more than 5 % and are cut"
                " off at the border; "
            ),
            "3 of 305 boxes (0.984 %) have no area within the image and are left out; ",
        ],
    ),
    "equal boxes of a class": Case(
        "coco",
        in_json(box(1), box(1, 90), box(1)),
        {"train": [("a", [OURS, OURS], ["cat", "dog"], [False, False])]},
        ["/coco: 1 of 3 boxes repeat another box of the same class and count once: a"],
    ),
    "images without objects in a table": Case(
        "csv",
        {**AB, "x.csv": lines("a.png").replace(",", ";") + "b.png;12;8;;;;;"},
        {"train": [cats("a"), ("b", *NOTHING)]},
        ["1 of 2 images have no objects, 0 of them no annotation: b.png"],
    ),
    "boxes and polygons that reach a little beyond their image": Case(
        "yolo",
        {
            "a.png": picture(0, 100, 200),
            "a.txt": "0 0.5 0.5 1.02 0.5 0.7 0.9\n1 0.890625 0.5 0.25 0.5",
            "classes.txt": NAMES,
        },
        {
            "train": [
                ("a", [[50, 100, 90, 200], [25, 153.125, 75, 200]], ["cat", "dog"], [False, False])
            ]
        },
        [
            "1 of 1 text files have polygons, which become the boxes around them: a",
            (
                "2 of 2 boxes reach beyond their images by up to 5 % and are cut off at the border:"
                " a.png"
            ),
        ],
    ),
    "polygons in JSON": Case("coco", in_json(POLYGON), {"train": [cats("a")]}),
    # Nor does `images`, which holds both splits, stand for train/images.
    "places that are not there are not taken for others": Case(
        "yolo",
        {**TWO_SPLITS, "data.yaml": yaml("../train/images", "../valid/images")},
        {"train": [cats("train/train")], "test": [cats("test/test")]},
    ),
    "images in several splits and in none": Case(
        "yolo",
        {**TWO_SPLITS, "data.yaml": yaml("images/train", "images/train")},
        {"val": [cats("train/train")]},
        [
            "/yolo: 1 of 2 images are in several splits of data.yaml: images/train/train.png",
            (
                "/yolo: 1 of 2 images are in no split of data.yaml and are left out:"
                " images/test/test.png"
            ),
        ],
    ),
    "without names and splits": Case(
        "yolo",
        {
            **AB,
            "a.txt": f"1{ROW[1:]}\n10.0 0.5 0.5 1 1",
            "readme.txt": "boxes of b",
            "classes.txt": "\n",
        },
        {"train": [("a", [OURS, WHOLE], ["1", "10"], [False, False]), ("b", *NOTHING)]},
        ["1 of 2 images have no objects, 1 of them no annotation: b.png"],
    ),
    "bad rows": Case(
        "yolo",
        {
            **A,
            "a.txt": (
                "\ufeff".encode()
                + rows(600).replace("\n", "\r\n").encode()
                + f"{BAD_ROWS}1 \xff 1 1 1".encode("latin-1")
            ),
            "labels/gone.txt": ROW,
            "classes.txt": NAMES,
        },
        {"train": [cats("a", 600)]},
        [
            "1 of 2 annotations match no image by name and are left out: gone",
            (
                "6 of 609 boxes (0.985 %) have no class of the list or no four numbers from 0 to 1"
                " and are left out; "
            ),
            (
                "1 of 609 boxes (0.164 %) reach beyond their images by more than 5 % and are cut"
                " off at the border; "
            ),
            "3 of 609 boxes (0.493 %) have no area within the image and are left out; ",
        ],
    ),
    "polygons": Case(
        "yolo",
        {**A, "a.txt": "0 0.25 0.5 0.5 0.125 0.75 0.5 0.5 0.875", "classes.txt": NAMES},
        {"train": [("a", [[1, 3, 7, 9]], ["cat"], [False])]},
        ["/yolo: 1 of 1 text files have polygons, which become the boxes around them: a"],
    ),
    "keypoints": Case(
        "yolo",
        {
            **A,
            "a.txt": f"{ROW} 0.1 0.1 0.2 0.2 0.3 0.3",
            "data.yaml": "kpt_shape: [3, 2]\nnames:\n  0: cat\n",
        },
        {"train": [cats("a")]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_is_read_and_said(opened, warnings, case):
    kind, files, splits, said, classes = CASES[case]
    for split, expected in splits.items():
        warnings.clear()
        source = opened(kind, files, split)
        assert contents(source) == expected
        assert classes in (None, source.class_names)
    assert len(warnings) == len(said)
    for line, end in zip(warnings, said):
        assert end in line


VOC_KNOWN = "; known are JPEGImages and Annotations "
NO_XML = f"none of its 1 images has an XML file of its name{VOC_KNOWN}"
NOT_THERE = r"\(50 %\) cannot be used.*: gone.png \(no such image\)"
NO_CLASS = (
    r"^--dataset=\S+ 1 of 1 boxes \(100 %\) have a class that classes.txt does not name.*: a"
    r" \(class 1\)"
)
NO_CATEGORY = (
    r"^--dataset=\S+ 1 of 2 boxes \(50 %\) have a category_id that x.json does not name.*: a"
    r" \(category_id 2\)"
)
OF_TRAIN = {
    **pictures("train/a.png"),
    "annotations/train.json": one("a.png"),
    "annotations/val.json": one("a.png"),
}
SAME_ID = [{"id": 1, "name": "cat"}, {"id": 1, "name": "dog"}]
IN_TWO_FOLDERS = {**pictures("images/y/a.png", "images/z/a.png"), "x.json": one("a.png")}
BATCHES = {**AB, "one.json": one("a.png"), "two.json": one("b.png")}
FOLDER_OF_FOLDERS = {**pairs("VOC2007/JPEGImages/a"), "VOC2007/ImageSets/Main/train.txt": "a"}
# Files, the message, and the split if it is not train.
TWO_CATS = coco(
    [image(1, "a.png")], [*entries(1, 2), box(1, 2)], [{"id": n, "name": "cat"} for n in (1, 2)]
)
REFUSED = [
    (
        "voc",
        many(1),
        "^--split=test: voc:.* has train; nothing can be held out for a test, since no class ",
        "test",
    ),
    (
        "voc",
        {**A, "a.xml": xml(("cat", 5, 5, 4, 3))},
        "1 of 1 boxes .* have no area .* not a width and a height",
    ),
    (
        "voc",
        {**A, "a.xml": xml(("cat", 5, 5, 24, 7))},
        "1 of 1 boxes .* reach beyond .* on images of another size",
    ),
    ("voc", SOME_LISTS, "^--split=cat_train: voc:.*/voc has my_own, train, val$", "cat_train"),
    ("voc", SOME_LISTS, "^--split=: voc:.*/voc has my_own, train, val$", ""),
    ("voc", LISTS_AT_TOP, "^--split=train: voc:.* has trainval, valid$"),
    *(
        (
            "voc",
            {**many(3), f"ImageSets/{path}": "000"},
            f"/ImageSets/{path}: lists of splits must be ImageSets/Main/NAME",
        )
        for path in ("test.txt", "Segmentation/test.txt", "Main/2007/test.txt")
    ),
    ("voc", {**many(1), "ImageSets/Main/train.txt": "\n"}, "^--split=train: has no image"),
    (
        "voc",
        FOLDER_OF_FOLDERS,
        r"/VOC2007/ImageSets: lists .* at the top of PATH; use --dataset=voc:.*/VOC2007$",
    ),
    ("voc", {"Annotations/a.xml": xml(CAT)}, f"^--dataset=voc:.*/voc: no images in it{VOC_KNOWN}"),
    *(("voc", {**A, name: ""}, NO_XML) for name in ("b.txt", "labels.csv")),
    (
        "voc",
        {**A, "a.txt": ""},
        "has an XML file of its name; its 1 text files may be YOLO's: --dataset=yolo:",
    ),
    (
        "yolo",
        {**A, "a.xml": ""},
        "has a text file of its name; its 1 XML files may be VOC's: --dataset=voc:",
    ),
    (
        "coco",
        {**A, "a.xml": ""},
        "no JSON files in it; its 1 XML files may be VOC's: --dataset=voc:",
    ),
    (
        "voc",
        {**A, "a.xml": xml(("cat", 0.1, 0.1, 0.5, 0.9))},
        "no number .* is above 1; VOC's boxes are in pixels",
    ),
    ("voc", {**A, "a.xml": xml()}, "^--split=train: no boxes in it, in --dataset=voc:"),
    (
        "coco",
        {"x.json": one("a.png")},
        "no images in it; known are annotations/instances_NAME.json",
    ),
    ("coco", A, "no JSON files in it; known are"),
    ("coco", {**A, "x.json": ONE_EACH.replace("b.png", "gone.png")}, f"1 of 2 images {NOT_THERE}"),
    ("coco", OF_TRAIN, r"1 of 1 images .* cannot be used.*: a.png \(no such image\)", "val"),
    ("coco", {**A, "x.json": one("a.png")[:-5]}, "x.json: cannot be read as JSON: "),
    (
        "coco",
        {**A, "x.json": "{}"},
        "^--dataset=coco:.*: its 1 JSON files are not COCO's; known are",
    ),
    (
        "coco",
        {**AB, **dict.fromkeys(("a.json", "b.json"), '{"shapes": [], "imagePath": "a.png"}')},
        (
            "^--dataset=coco:.*: its 2 JSON files are labelme's, one for each image, which are not"
            " read; convert them"
        ),
    ),
    (
        "voc",
        {**A, "a.xml": xml(CAT, size=(16, 24))},
        "1 of 1 images .* all of these are 0.5 times as large as in",
    ),
    (
        "coco",
        in_json(box(1), width=60),
        r"say, more than 1 %; take the images .* \(8 x 12 px, annotated as 8 x 60\)",
    ),
    (
        "coco",
        {**A, "x.json": TWO_CATS},
        r"ids 1 \(2 boxes\) and 2 \(1 boxes\) are both called cat; rename one",
    ),
    (
        "csv",
        A,
        (
            "no CSV files in it; known are CSV files with the columns"
            " filename,width,height,class,xmin,"
        ),
    ),
    (
        "csv",
        {**A, "a.csv": lines("a.png").replace("5,6", "5,x")},
        "1 of 1 boxes .* have no class or no four numbers",
    ),
    ("coco", in_json(box(1), box(1, 2)), NO_CATEGORY),
    (
        "coco",
        in_json(box(1, bbox=(0.1, 0.1, 0.5, 0.5))),
        "no number of a box is above 1; COCO's boxes are in pixels",
    ),
    (
        "coco",
        {**A, "x/train.json": one("a.png"), "y/train.json": one("a.png")},
        "are both the split train",
    ),
    ("coco", in_json(), "--split=train: no boxes in it"),
    (
        "coco",
        in_json(box(1, bbox=(8, 2, 11, 6))),
        "1 of 1 boxes .* reach beyond .* bbox is x, y, width and height in",
    ),
    (
        "coco",
        in_json({**box(1), "bbox": None}),
        "1 of 1 boxes .* neither a bbox of four numbers nor a polygon",
    ),
    (
        "coco",
        in_json(box(1), box(7)),
        r"1 of 2 boxes \(50 %\) have an image_id that x.json does not name.*: 7",
    ),
    (
        "coco",
        {**A, "x.json": coco([image(1, "a.png"), image(2, "a.png")], [])},
        "ids 1 and 2 name one file, a.png; give",
    ),
    (
        "coco",
        {**A, "x.json": coco([image(1, "y/a.png"), image(2, "z/a.png")], [])},
        "one file, y/a.png and z/a.png;",
    ),
    (
        "coco",
        {**AB, "x.json": coco([image(1, "a.png"), image(1, "b.png")], [])},
        "images a.png and b.png have the same id, 1",
    ),
    (
        "coco",
        {**A, "x.json": coco([], [], SAME_ID)},
        "the categories cat and dog have the same id, 1",
    ),
    (
        "coco",
        IN_TWO_FOLDERS,
        "train is ambiguous: it can be images/y/a.png or images/z/a.png; add the folder",
    ),
    (
        "coco",
        BATCHES,
        (
            r"^--split=train: .* has one, two; parts of one .*: --split=one\[:80%\]"
            r" --test_split=one\[80%:\]"
        ),
    ),
    ("yolo", {"a.txt": ROW}, "no images in it; known are images/.*jpg and labels"),
    ("yolo", A, "none of its 1 images has a text file of its name; known are"),
    (
        "yolo",
        {**A, "a.txt": "0 3 2 4 4"},
        "1 of 1 boxes have numbers above 1; YOLO's boxes are fractions",
    ),
    (
        "yolo",
        {**A, "a.txt": "0 0.9 0.9 0.9 0.9"},
        "1 of 1 boxes .* reach beyond .* centre, width and height",
    ),
    ("yolo", {**A, "a.txt": "1 0.5 0.5 0.5 0.5", "classes.txt": "cat"}, NO_CLASS),
    (
        "yolo",
        {**A, "a.txt": "a cat"},
        r"1 of 1 images.*: a \(broken annotation, line 1 is a cat instead of",
    ),
    (
        "yolo",
        {**A, "x.yaml": "names: [a]", "y.yaml": "names: [b]"},
        "x.yaml and y.yaml both have names of classes",
    ),
    ("yolo", {**A, "a.txt": ""}, "--split=train: no boxes in it"),
]


@pytest.mark.parametrize(
    ("kind", "files", "message", "split"), [(*row, "train")[:4] for row in REFUSED]
)
def test_what_cannot_be_read_is_refused(opened, kind, files, message, split):
    with pytest.raises(ConfigError, match=message) as error:
        opened(kind, files, split)
    assert str(error.value).isprintable()
