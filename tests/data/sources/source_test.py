"""What every source must do: an order that is a function of (seed, counter), epochs that are permutations."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.data.sources.folder import open_folder
from cpc_tf.data.sources.tfds_source import TfdsSource


def levels(dataset, count):
    """[(counter, grey level)] of the first examples; the grey level is the number of the file or record."""
    examples = itertools.islice(dataset.as_numpy_iterator(), count)
    return [(int(e["counter"]), int(tf.io.decode_image(e["encoded"])[0, 0, 0])) for e in examples]


@pytest.fixture(
    scope="module",
    params=[
        "folder 1",
        "folder 10",
        "one shard",
        "three shards",
        "small windows",
        "even windows",
        "skips",
    ],
)
def source(request, tmp_path_factory, sharded, write_folder):
    if request.param.startswith("folder"):
        count = int(request.param.split()[1])
        root = write_folder(tmp_path_factory.mktemp("flat"), [f"{i:02}.png" for i in range(count)])
        return open_folder(root, "train", str(tmp_path_factory.mktemp("cache")))
    shards, window = {
        "one shard": ([10], 100),
        "three shards": ([5, 1, 4], 100),
        "small windows": ([5, 1, 4], 3),
        "even windows": ([4, 4, 4], 6),
        "skips": ([5, 3], 4),
    }[request.param]
    return TfdsSource(sharded(*shards, skip=2 if request.param == "skips" else 0), "train", window)


def test_epochs_are_permutations_in_different_orders(source):
    n = source.num_examples
    got = levels(source.stream(seed=3), 4 * n)
    assert [counter for counter, _ in got] == list(range(4 * n))
    epochs = np.array([level for _, level in got]).reshape(4, n)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(n), [4, 1]))
    assert n == 1 or len({tuple(epoch) for epoch in epochs}) > 1


def test_start_gives_what_an_uninterrupted_stream_gives(source):
    n = source.num_examples
    whole = levels(source.stream(seed=5), 4 * n + 4)
    for start in {1, n - 1, n, 2 * n + n // 2}:
        assert levels(source.stream(seed=5, start=start), n + 3) == whole[start : start + n + 3], start


def test_seed_decides_the_order(source):
    n = source.num_examples
    assert levels(source.stream(seed=1), 3 * n) == levels(source.stream(seed=1), 3 * n)
    if n > 1:
        orders = {tuple(levels(source.stream(seed=seed), n)) for seed in (0, 1, 2**40)}
        assert len(orders) > 1


def test_select_keeps_the_order_of_the_others(source):
    odd = levels(source.stream(seed=2, start=4, select=lambda counter: counter % 2 == 1), 8)
    assert odd == [pair for pair in levels(source.stream(seed=2, start=4), 20) if pair[0] % 2 == 1][:8]


def test_ordered_is_one_pass_in_fixed_order(source):
    n = source.num_examples
    assert levels(source.ordered(), n + 1) == [(i, i) for i in range(n)]


def test_elements_are_scalars(source):
    for dataset in (source.stream(seed=0), source.ordered()):
        spec = dataset.element_spec
        assert {name: (s.dtype, s.shape.rank) for name, s in spec.items()} == {
            "counter": (tf.int64, 0),
            "encoded": (tf.string, 0),
            "label": (tf.int64, 0),
        }
