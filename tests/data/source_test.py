"""What every source must do: an order that is a function of (seed, counter), epochs that are
permutations.
"""

import io
import itertools
import re

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from cpc_tf.data import datasets
from cpc_tf.data.datasets import TfdsSource
from cpc_tf.data.source import Indexed, Joined, Source, restricted
from tests.boxes.samples import open_voc_folder, pictures, xml
from tests.data.samples import open_folder, write_files

pytestmark = pytest.mark.slow

# Shards and window.
RECORDS = {"small windows, and skips": ([5, 1, 2], 4), "several files at once": ([3, 2, 4, 3], 12)}
SCALARS = {"counter": (tf.int64, []), "encoded": (tf.string, []), "label": (tf.int64, [])}
OBJECTS = {
    **{"counter": (tf.int64, []), "encoded": (tf.string, []), "name": (tf.string, [])},
    **{
        "boxes": (tf.float32, [None, 4]),
        "labels": (tf.int64, [None]),
        "difficult": (tf.bool, [None]),
    },
}


def levels(dataset, count):
    """[(counter, grey level)] of the first examples; the grey level is the number of the file or
    record.
    """
    examples = itertools.islice(dataset.as_numpy_iterator(), count)
    return [(int(e["counter"]), level(e["encoded"])) for e in examples]


def level(encoded):
    """The grey level of an image; by Pillow, since a TensorFlow operation that runs alone takes
    milliseconds.
    """
    return np.asarray(Image.open(io.BytesIO(encoded))).flat[0]


def write_boxes(root, count):
    """Image i has i boxes."""
    files = pictures(*(f"{number}.png" for number in range(count)))
    # equal ones would count once
    cats = [("cat", 1 + place, 2, 3 + place, 5) for place in range(count)]
    write_files(root, files | {f"{number}.xml": xml(*cats[:number]) for number in range(count)})
    return root


@pytest.fixture(
    params=["one file", "folder", "voc", *RECORDS, "subset of folder", "subset of tfds"]
)
def source(request, tmp_path, cache, unchecked, sharded, write_folder):
    kind = request.param
    if kind == "voc":
        return open_voc_folder(write_boxes(tmp_path / "x", 7), "train", cache)
    if kind in RECORDS:
        shards, window = RECORDS[kind]
        return TfdsSource(sharded(*shards, skip=2 if "skips" in kind else 0), "train", window)
    if kind == "subset of tfds":
        return restricted(TfdsSource(sharded(3, 5), "train", 4), np.arange(6))
    count = 1 if kind == "one file" else 10
    folder = open_folder(
        write_folder(tmp_path / "x", [f"{i:02}.png" for i in range(count)]), "train", cache
    )
    return restricted(folder, np.arange(6)) if kind == "subset of folder" else folder


def test_order_is_a_function_of_seed_and_counter(source):
    n = source.num_examples
    assert levels(source.ordered(), n + 1) == [(i, i) for i in range(n)]
    whole = levels(source.stream(seed=5), 4 * n + 4)
    assert [counter for counter, _ in whole] == list(range(4 * n + 4))
    epochs = np.array([level for _, level in whole[: 4 * n]]).reshape(4, n)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(n), [4, 1]))
    assert n == 1 or len({tuple(epoch) for epoch in epochs}) > 1
    for start in {1, 2 * n + n // 2}:  # as a resumed run reads it
        assert levels(source.stream(seed=5, start=start), n + 3) == whole[start : start + n + 3], (
            start
        )
    odd = [pair for pair in whole[4:] if pair[0] % 2 == 1][:8]
    assert (
        levels(source.stream(seed=5, start=4, select=lambda counter: counter % 2 == 1), len(odd))
        == odd
    )
    assert n == 1 or levels(source.stream(seed=2**40), 2 * n) != whole[: 2 * n]


def test_elements_and_names(source):
    streamed = source.stream(seed=0)
    for dataset in (streamed, source.ordered()):
        spec = {name: (s.dtype, s.shape.as_list()) for name, s in dataset.element_spec.items()}
        if dataset is streamed and isinstance(source, Indexed):
            assert spec.pop("index") == (tf.int64, [])
            drawn = next(iter(streamed))
            encoded = list(
                source.ordered().map(lambda example: example["encoded"]).as_numpy_iterator()
            )
            assert drawn["encoded"] == encoded[int(drawn["index"])]
        assert spec == (OBJECTS if "boxes" in spec else SCALARS)
    if isinstance(source, Source):  # a record's place, or the number in a file's name
        assert [int(re.sub(r"^train/|\.png$", "", name)) for name in source.names()] == list(
            range(source.num_examples)
        )
        return
    for example in streamed.take(source.num_examples).as_numpy_iterator():
        number = level(example["encoded"])
        assert len(example["boxes"]) == len(example["labels"]) == number, "all of the same image"
        assert example["name"].decode() == str(number)


@pytest.fixture(params=["folder", "tfds"])
def whole(request, tmp_path, write_folder, sharded, cache, unchecked):
    """12 examples with labels."""
    if request.param == "tfds":
        return TfdsSource(sharded(5, 4, 3), "train", window=4)
    names = [f"{'abc'[number % 3]}/{number}.png" for number in range(12)]
    return open_folder(write_folder(tmp_path / "x", names), "train", cache)


def contents(source):
    return [(level(e["encoded"]), int(e["label"])) for e in source.ordered().as_numpy_iterator()]


def test_a_subset_holds_its_examples_in_order(whole):
    every = contents(whole)
    np.testing.assert_array_equal(whole.labels(), [label for _, label in every])
    assert restricted(whole, np.arange(12)) is whole
    few = restricted(whole, np.array([1, 4, 5, 10]))
    fewer = restricted(few, np.array([0, 2, 3]))
    for subset, indices in ((few, [1, 4, 5, 10]), (fewer, [1, 5, 10])):
        assert (subset.num_examples, subset.class_names) == (len(indices), whole.class_names)
        assert contents(subset) == [every[index] for index in indices]
        np.testing.assert_array_equal(subset.labels(), whole.labels()[indices])
    # As a subset of its own: the shuffled order is a function of the seed and the number of
    # examples.
    direct = restricted(whole, np.array([1, 5, 10]))
    assert levels(fewer.stream(seed=3), 9) == levels(direct.stream(seed=3), 9)


def test_joined_sources_keep_order_without_repeats_per_epoch(whole):
    every, places = contents(whole), [1, 4, 5, 0, 10]
    joined = Joined(
        restricted(whole, np.array(places[:3])), restricted(whole, np.array(places[3:]))
    )
    wanted = [every[place] for place in places]
    assert contents(joined) == wanted
    np.testing.assert_array_equal(joined.labels(), [label for _, label in wanted])
    assert joined.names() == [whole.names()[place] for place in places]
    assert sorted(value for _, value in levels(joined.stream(seed=3), 5)) == sorted(
        value for value, _ in wanted
    )


def test_records_are_indexed_once_for_all_subsets(sharded, monkeypatch):
    """Not again for each subset of the subset, nor for each epoch over one."""
    source, indexed = TfdsSource(sharded(5, 4), "train", window=4), []
    index_of = datasets.index_of
    monkeypatch.setattr(
        datasets, "index_of", lambda *arguments: indexed.append(1) or index_of(*arguments)
    )
    monkeypatch.setattr(source, "ordered", None)
    few = restricted(source, np.arange(6))
    for part in (restricted(few, np.arange(3)), restricted(few, np.arange(3, 6))):
        assert len(list(part.ordered())) == len(list(part.stream(seed=0).take(3))) == 3
    assert len(indexed) == 1


def test_the_order_of_a_subset_does_not_change(sharded):
    """Earlier versions held subsets of records in memory; their runs go on with the images they
    would have seen.
    """
    subset = restricted(
        TfdsSource(sharded(4, 3, 5), "train", window=9), np.array([1, 2, 4, 7, 8, 11])
    )
    assert [level for _, level in levels(subset.stream(seed=7), 12)] == [
        2,
        1,
        8,
        7,
        4,
        11,
        2,
        8,
        4,
        1,
        7,
        11,
    ]
