"""Splits of folders with boxes: usual names, slices, and the part that is held out; README's
command on each layout.
"""

import json

import numpy as np
import pytest

from cpc_tf.boxes import catalog as boxes
from cpc_tf.boxes import voc
from cpc_tf.boxes.layout import Annotated, Annotation
from cpc_tf.core import cli
from cpc_tf.data import catalog
from cpc_tf.data.config import DataConfig
from cpc_tf.detect import inputs, run, scoring
from cpc_tf.detect.config import DetectConfig
from cpc_tf.training import loop
from tests.boxes.samples import CAT, ROW, box, coco, image, pairs, picture, pictures, xml
from tests.data.samples import write_files
from tests.detect.samples import make_tiny

DATA = DataConfig(dataset="voc:x")
DOG = ("dog", *CAT[1:])


def folder_of(**parts):
    """A folder with these numbers of images; each third has a dog, the others a cat and a dog."""
    keys = {split: [f"{split}/{n}" for n in range(count)] for split, count in parts.items()}
    notes = {
        key: Annotation(["dog"] if n % 3 == 0 else ["cat", "dog"], [], [], (1, 1))
        for own in keys.values()
        for n, key in enumerate(own)
    }
    return Annotated(
        voc.FORMAT, "/x", {key: f"{key}.png" for key in notes}, notes, ("cat", "dog"), {}, keys
    )


def names(folder, split, test_split="test"):
    """How a split is found, and its images."""
    asked = [split, test_split]
    table = boxes.table_of(DATA, folder, asked)
    pieces = boxes.select(table, split, asked, 0)
    return "+".join(piece.text for piece in pieces), [
        key for piece in pieces for key in table.keys[piece.rows]
    ]


@pytest.mark.parametrize(
    ("parts", "split", "test_split", "found"),
    [
        ("train valid test", "trainval", "test", "train+valid"),
        ("train valid", "trainval", "test", "train"),
        ("train valid test", "trainval", "val", "train"),
        # VOC 2012, where trainval has the test's images
        (
            "train val trainval",
            "trainval",
            "test",
            "train",
        ),
        ("train val trainval test", "trainval", "test", "trainval"),
        ("train2017 val2017", "trainval", "test", "train2017"),
        ("trainval test", "train", "test", "trainval"),
        ("train valid test", "trainval[:50%]", "test", "train[:50%]+valid[:50%]"),
        ("train dev", "test", "test", "dev"),
        ("training testing", "val", "val", "testing"),
        ("train", "trainval", "test", "train"),
    ],
)
def test_usual_names_stand_for_each_other(parts, split, test_split, found):
    assert names(folder_of(**dict.fromkeys(parts.split(), 4)), split, test_split)[0] == found


def test_missing_test_split_takes_fifth_of_each_class():
    """Cat is the rarer class, and counts for images of both."""
    folder = folder_of(train=30)
    test, train = names(folder, "test")[1], names(folder, "train")[1]
    assert sorted(test + train) == sorted(folder.images)
    assert [int(key.split("/")[1]) % 3 == 0 for key in test].count(True) == 2
    assert len(test) == 6
    assert names(folder, "train", "train")[1] == [*folder.images], "nothing else is tested on"
    slices = [names(folder, part, "train[80%:]")[1] for part in ("train[:80%]", "train[80%:]")]
    assert [len(part) for part in slices] == [24, 6]
    assert sorted([*slices[0], *slices[1]]) == sorted(folder.images)


def test_copies_share_a_split_and_splits_are_named(tmp_path):
    files = {
        f"{n:02}{twin}.{end}": end for n in range(12) for twin in "ab" for end in ("png", "xml")
    }
    files = {
        name: picture(int(name[:2])) if end == "png" else xml(CAT) for name, end in files.items()
    }
    write_files(tmp_path / "boxes", files)
    flags = [f"--dataset=voc:{tmp_path}/boxes", "--split=trainval", f"--data_dir={tmp_path}/cache"]
    config = cli.parse(DetectConfig, flags)
    data = inputs.open_data(config)
    assert "kept together: 24 images in" in data.summary
    for parts in ((data.source, data.test_source), run.divided(data.source, 0.3, seed=0)):
        one, other = ({name[:2] for name in part.objects.names} for part in parts)
        assert min(len(one), len(other)) > 0
        assert not one & other
    lists = {"train": "00a\n01a\n02a", "test": "00b\n01a\n02b"}
    write_files(
        tmp_path / "boxes", {f"ImageSets/Main/{split}.txt": text for split, text in lists.items()}
    )
    write_files(tmp_path / "boxes", {"02b.xml": xml(("cat", 2, 3, 6, 6))})
    lines = [line.strip() for line in inputs.open_data(config).summary.splitlines()]
    assert [line.rpartition(": ")[2] for line in lines if "copies of training images" in line] == [
        "00b.png (00a.png), 02b.png (02a.png)"
    ]
    apart = [line for line in lines if "another label than a copy" in line]
    assert apart == [
        "1 image has another label than a copy: 02b.png (02a.png); remove one of each, or correct"
        " its label"
    ]
    assert any(line.startswith("1 test images are also in the training split: ") for line in lines)


def test_unannotated_images_are_not_held_out():
    folder = folder_of(train=20)
    unknown = {f"train/more/{n}": f"{n}.png" for n in range(50)}
    folder = folder._replace(
        images={**folder.images, **unknown}, parts={"train": [*folder.images, *unknown]}
    )
    test = names(folder, "test")[1]
    assert len(test) == 4
    assert not {*test} & {*unknown}


def voc_files(places):
    return {
        **pairs(*places),
        **{f"{places[0].replace('JPEGImages', 'Annotations')}.xml": xml(CAT, DOG)},
    }


def coco_files(file, *names_of):
    images = [image(n + 101, name.rpartition("/")[2]) for n, name in enumerate(names_of)]
    return {
        **pictures(*names_of),
        file: coco(images, [box(101), *(box(each["id"], 90) for each in images)]),
    }


TEN = [f"{n:02}" for n in range(10)]
LISTS = {"ImageSets/Main/trainval.txt": "\n".join(TEN[:8]), "ImageSets/Main/test.txt": "08\n09"}
# Kind, files, how many images are learned and tested, and what is said of the splits.
LAYOUTS = {
    "VOC with lists": (
        "voc",
        {**voc_files([f"JPEGImages/{n}" for n in TEN]), **LISTS},
        (8, 2),
        ["--test_split=test: 2 "],
    ),
    "VOC without": (
        "voc",
        voc_files([f"JPEGImages/{n}" for n in TEN]),
        (8, 2),
        [
            "--split=trainval (found as train): 8 images",
            "a fifth of each class of train is the split test, drawn with",
        ],
    ),
    "COCO": (
        "coco",
        {
            **coco_files(
                "annotations/instances_train2017.json", *(f"train2017/{n}.png" for n in TEN)
            ),
            **coco_files(
                "annotations/instances_val2017.json", *(f"val2017/{n}.png" for n in TEN[:3])
            ),
        },
        (10, 3),
        [
            "--split=trainval (found as train2017): 10 ",
            "--test_split=test (found as val2017): 3 images, 4 objects",
        ],
    ),
    "COCO in one file": (
        "coco",
        coco_files("annotations/instances_default.json", *(f"images/default/{n}.png" for n in TEN)),
        (8, 2),
        ["--split=trainval (found as train): 8 images", "--test_split=test: 2 images"],
    ),
    "Roboflow": (
        "voc",
        voc_files(
            [
                f"{s}/{n}"
                for s, count in (("train", 5), ("valid", 3), ("test", 2))
                for n in TEN[:count]
            ]
        ),
        (8, 2),
        ["--split=trainval (found as train+valid): 8 images", "--test_split=test: 2 images"],
    ),
    "YOLO": (
        "yolo",
        {
            **pictures(*(f"images/{n}.png" for n in TEN)),
            **{f"labels/{n}.txt": ROW for n in TEN},
            "labels/00.txt": f"{ROW}\n1{ROW[1:]}",
            "classes.txt": "cat\ndog",
        },
        (8, 2),
        ["--split=trainval (found as train): 8 images, 9 objects of 2 classes: cat 8, dog 1"],
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_command_of_the_readme(tmp_path, layout):
    kind, files, counts, said = LAYOUTS[layout]
    write_files(tmp_path / "x", files)
    words = [f"--boxes={tmp_path}/x", f"--data_dir={tmp_path}"]
    given, found = inputs.find_dataset(cli.parse(DetectConfig, words))
    assert (given.data.dataset, given.detector.rpn.rpn_width) == (f"{kind}:{tmp_path}/x", 128)
    data = inputs.open_data(given)
    sources = data.source, data.test_source
    assert tuple(source.num_examples for source in sources) == counts
    assert not {*sources[0].objects.names} & {*sources[1].objects.names}
    assert [part for part in said if part not in data.summary] == []
    assert dict(sources[0].category_ids) == ({"cat": 1, "dog": 90} if kind == "coco" else {})
    sizes = sources[0].sizes()
    config, _ = inputs.fit_to_images(given, sizes)
    # Images of 8 x 12 px whose objects have two fifths of a side, which becomes 96 px in the test.
    side = 96 * np.sqrt(1.5 * 96 / 16)  # of a square with the area of the largest image as shown
    wanted = [32 * round(side * shape / 32) for shape in (np.sqrt(8 / 12), np.sqrt(12 / 8))]
    assert [config.canvas.canvas_height, config.canvas.canvas_width] == wanted
    area = min(wanted[0] ** 2 * 12 / 8, wanted[1] ** 2 * 8 / 12)
    assert config.canvas.area_scale == pytest.approx(area / 450_000, rel=0.01)
    middle = np.sqrt(area * 16 / 96 * 2 / 3)  # a test image has two thirds of the largest area
    assert config.detector.anchors.numbers("anchor_sizes") == pytest.approx(
        [middle / 2**0.5, middle * 1.5**0.5], rel=0.02
    )
    lines = inputs.table([*found, *inputs.origins(given, config, data, sizes)]).splitlines()
    assert [line.split()[0] for line in lines] == [
        *(
            "setting",
            "--dataset",
            "--split",
            "--test_split",
            "--canvas_height",
            "--canvas_width",
            "--area_scale",
        ),
        "--anchor_sizes",
    ]
    assert ("drawn with seed 0" in lines[3]) == ("drawn with seed 0" in data.summary)


SMALLEST = """
    --encoder=random --backbone=tiny --precision=float32 --canvas_height=48 --canvas_width=64
    --rpn_width=8 --rpn_samples=16 --rpn_train_candidates=20 --rpn_train_proposals=10
    --rpn_test_candidates=20 --rpn_test_proposals=10 --region_samples=8 --region_pool=3
    --region_blocks=1 --region_width=8 --batch_size=2 --train_steps=2 --test_batch_size=2
    --strategy=single
""".split()


@pytest.fixture(scope="module")
def traced_once():
    """Runs share a small detector, its training step and its test, which take a quarter of a minute
    to trace.

    The layouts have images of one size and two classes, so that nothing traced depends on the
    layout.
    """

    def shared(make):
        made = []
        return lambda *args, **options: (
            made[0] if made else made.append(make(*args, **options)) or made[0]
        )

    with pytest.MonkeyPatch.context() as patch:
        make_tiny(patch)
        places = (
            (run, "build_detector"),
            (run, "DetectorTraining"),
            (loop, "_device_loop"),
            (scoring, "finder"),
        )
        for module, name in places:
            patch.setattr(module, name, shared(getattr(module, name)))
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("traced_once")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_command_of_the_readme_trains_and_tests(tmp_path, layout):
    """To its end, with a smaller network."""
    kind, files, counts, _ = LAYOUTS[layout]
    write_files(tmp_path / "x", files)
    config = cli.parse(
        DetectConfig,
        [
            f"--boxes={tmp_path}/x",
            f"--data_dir={tmp_path}",
            f"--workdir={tmp_path}/detect",
            *SMALLEST,
        ],
    )
    run.detect(config)
    result = json.loads((tmp_path / "detect/result.json").read_text())
    assert (result["images"], result["test_images"], result["steps"]) == (*counts, 2)
    assert result["class_names"] == ["cat", "dog"]
    assert (tmp_path / "detect/derived.txt").read_text().splitlines()[1].startswith("--dataset  ")
    assert 0 <= result["map11"] <= 1


@pytest.mark.usefixtures("unchecked")
def test_pretraining_excludes_test_images_of_the_detector(tmp_path):
    write_files(tmp_path / "x", voc_files([f"JPEGImages/{n}" for n in TEN]))
    data = DataConfig(dataset=f"voc:{tmp_path}/x", data_dir=str(tmp_path))
    _, test = boxes.open_detection_sources(data, {"split": "train", "test_split": "test"})
    learned = catalog.open_source(data, "trainval")
    assert sorted(
        [*learned.names(), *(f"JPEGImages/{name}.png" for name in test.objects.names)]
    ) == [f"JPEGImages/{n}.png" for n in TEN]
    assert "drawn with seed 0" in learned.about.notes[0]
