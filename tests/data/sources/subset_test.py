"""Some examples of a source: those, in order, shuffled as any source, and held at most once."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.sources.folder import open_folder
from cpc_tf.data.sources.subset import restricted
from cpc_tf.data.sources.tfds_source import TfdsSource


@pytest.fixture(params=["folder", "tfds"])
def source(request, tmp_path, write_folder, sharded):
    """12 examples; number i is of grey level i."""
    if request.param == "tfds":
        return TfdsSource(sharded(5, 4, 3), "train", window=4)
    names = [f"{'abc'[number % 3]}/{number}.png" for number in range(12)]
    return open_folder(write_folder(tmp_path / "pictures", names), "train", str(tmp_path / "cache"))


def grey(example):
    return int(tf.io.decode_png(example["encoded"])[0, 0, 0])


def test_labels_are_known_without_decoding(source):
    np.testing.assert_array_equal(source.labels(), [int(e["label"]) for e in source.ordered()])


def test_a_subset_holds_its_examples_in_order(source):
    every = [(grey(e), int(e["label"])) for e in source.ordered()]
    few = restricted(source, np.array([1, 4, 10]))
    assert (few.num_examples, few.class_names) == (3, source.class_names)
    assert [(grey(e), int(e["label"])) for e in few.ordered()] == [every[index] for index in (1, 4, 10)]
    assert [int(e["counter"]) for e in few.ordered()] == [0, 1, 2]
    np.testing.assert_array_equal(few.labels(), source.labels()[[1, 4, 10]])


def test_a_subsets_stream_is_each_example_once_an_epoch_and_resumes(source):
    few = restricted(source, np.array([0, 3, 5, 11]))
    whole = [(int(e["counter"]), grey(e)) for e in few.stream(seed=2).take(12)]
    assert [counter for counter, _ in whole] == list(range(12))
    epochs = [[level for _, level in whole[start : start + 4]] for start in (0, 4, 8)]
    wanted = sorted(grey(e) for e in few.ordered())
    assert all(sorted(epoch) == wanted for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1
    assert [(int(e["counter"]), grey(e)) for e in few.stream(seed=2, start=5).take(7)] == whole[5:]
    odd = few.stream(seed=2, select=lambda counter: counter % 2 == 1).take(6)
    assert [(int(e["counter"]), grey(e)) for e in odd] == whole[1::2]


def test_everything_is_no_subset(source):
    assert restricted(source, np.arange(12)) is source
    assert restricted(source, np.arange(11)).num_examples == 11


def test_a_subset_of_a_subset_reads_from_the_first(source):
    every = [(grey(e), int(e["label"])) for e in source.ordered()]
    few = restricted(source, np.array([1, 4, 5, 10]))
    fewer = restricted(few, np.array([0, 2, 3]))
    assert [(grey(e), int(e["label"])) for e in fewer.ordered()] == [every[index] for index in (1, 5, 10)]
    np.testing.assert_array_equal(fewer.labels(), source.labels()[[1, 5, 10]])
    # As a subset of its own: the shuffled order is a function of the seed and the number of examples.
    direct = restricted(source, np.array([1, 5, 10]))
    assert [grey(e) for e in fewer.stream(seed=3).take(9)] == [grey(e) for e in direct.stream(seed=3).take(9)]


def test_records_are_read_once(sharded, monkeypatch):
    """Not again for each subset of the subset, nor for each pass over one."""
    source, passes = TfdsSource(sharded(5, 4), "train", window=4), []
    ordered = source.ordered
    monkeypatch.setattr(source, "ordered", lambda: passes.append(1) or ordered())
    few = restricted(source, np.arange(6))
    for part in (restricted(few, np.arange(3)), restricted(few, np.arange(3, 6))):
        assert len(list(part.ordered())) == len(list(part.stream(seed=0).take(3))) == 3
    assert len(passes) == 1
