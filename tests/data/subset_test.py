"""Few labels: as many of each class, nested, and the examples that belong to them."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.folder import open_folder
from cpc_tf.data.subset import Subset, choose, hold_out, restricted
from cpc_tf.data.tfds_source import TfdsSource
from cpc_tf.settings import ConfigError

# Class 0 has 100 labels, class 1 has 30, class 2 has 7.
LABELS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [100, 30, 7]))
NAMES = ("plenty", "some", "few")


def counts(places):
    return np.bincount(LABELS[places], minlength=3).tolist()


@pytest.mark.parametrize(
    ("fraction", "wanted"), [(0.1, [10, 3, 1]), (0.29, [29, 9, 2]), (0.5, [50, 15, 4]), (1.0, [100, 30, 7])]
)
def test_each_class_gives_its_part(fraction, wanted):
    places = choose(LABELS, NAMES, fraction)
    assert counts(places) == wanted
    assert np.array_equal(places, np.unique(places))


def test_labels_per_class():
    assert counts(choose(LABELS, NAMES, 1.0, per_class=5)) == [5, 5, 5]


def test_smaller_parts_lie_in_larger_ones():
    parts = [set(choose(LABELS, NAMES, fraction, seed=3)) for fraction in (0.1, 0.2, 0.29, 0.5, 1)]
    assert all(small < large for small, large in zip(parts, parts[1:]))


def test_another_seed_chooses_others():
    one, other = (choose(LABELS, NAMES, 0.5, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, choose(LABELS, NAMES, 0.5, seed=0))


def test_a_class_without_a_label_is_an_error_that_names_it():
    with pytest.raises(ConfigError, match=r"--label_fraction=0.05: leaves none of the 7 labels of class few"):
        choose(LABELS, NAMES, 0.05)
    with pytest.raises(ConfigError, match=r"--labels_per_class=8: class few has only 7"):
        choose(LABELS, NAMES, 1.0, per_class=8)
    with pytest.raises(ConfigError, match="class nothing has no examples"):
        choose(LABELS, (*NAMES, "nothing"), 1.0)


def test_the_way_out_of_too_small_a_fraction_works():
    with pytest.raises(ConfigError) as error:
        choose(LABELS, NAMES, 0.05)
    least = float(str(error.value).split("gives one is ")[1].split(",")[0])
    assert counts(choose(LABELS, NAMES, least))[2] == 1


def test_held_out_labels_are_none_of_those_that_are_fitted():
    chosen = choose(LABELS, NAMES, 0.5)
    fit, held = hold_out(LABELS, chosen, 0.2)
    assert counts(held) == [10, 3, 1]
    assert not set(fit) & set(held)
    np.testing.assert_array_equal(np.sort(np.concatenate([fit, held])), chosen)


def test_nothing_is_held_out_of_single_labels():
    assert hold_out(LABELS, choose(LABELS, NAMES, 1.0, per_class=1), 0.2) is None
    assert hold_out(LABELS, choose(LABELS, NAMES, 1.0), 0.0) is None
    fit, held = hold_out(LABELS, choose(LABELS, NAMES, 1.0, per_class=2), 0.1)
    assert counts(fit) == counts(held) == [1, 1, 1]


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
    few = Subset(source, np.array([1, 4, 10]))
    assert (few.num_examples, few.class_names) == (3, source.class_names)
    assert [(grey(e), int(e["label"])) for e in few.ordered()] == [every[place] for place in (1, 4, 10)]
    assert [int(e["counter"]) for e in few.ordered()] == [0, 1, 2]
    np.testing.assert_array_equal(few.labels(), source.labels()[[1, 4, 10]])


def test_a_subsets_stream_is_each_example_once_an_epoch_and_resumes(source):
    few = Subset(source, np.array([0, 3, 5, 11]))
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
