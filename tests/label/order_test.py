"""Which pictures come next, on three clusters of different sizes."""

import numpy as np
import pytest

from cpc_tf.evaluation.scores import normalized
from cpc_tf.label import order
from cpc_tf.label.order import Known

RANDOM = np.random.default_rng(0)
# 60, 30 and 10 pictures around three corners; the last of each is an outlier.
CENTRES = np.eye(3).repeat([60, 30, 10], 0)
CLUSTER = CENTRES.argmax(1)
DIRECTIONS = normalized(CENTRES + 0.02 * RANDOM.normal(size=CENTRES.shape) + (np.arange(100) % 30 == 29)[:, None] * 0.3)
NOTHING = np.zeros(0, np.int64)


@pytest.mark.parametrize("name", [*order.ORDERS])
def test_each_order_gives_unlabelled_pictures_once_and_repeats(name):
    labelled, margins = np.arange(0, 100, 7), RANDOM.random(100)
    for known in (Known(DIRECTIONS, NOTHING), Known(DIRECTIONS, labelled, margins)):
        chosen = order.ORDERS[name](known, 20, 5)
        assert chosen == order.ORDERS[name](known, 20, 5)
        assert len({*chosen}) == 20
        assert not {*chosen} & {*known.labelled.tolist()}
        assert sorted(order.ORDERS[name](known, 200, 5)) == known.free.tolist()


def test_typical_pictures_are_of_each_cluster_the_largest_first():
    chosen = order.typical(Known(DIRECTIONS, NOTHING), 3, 0)
    assert CLUSTER[chosen].tolist() == [0, 1, 2]
    assert all(i % 30 != 29 for i in chosen)
    labelled = np.array(chosen)
    similarity = DIRECTIONS[CLUSTER == 0] @ DIRECTIONS[CLUSTER == 0].T
    assert similarity[chosen[0]].mean() > np.median(similarity.mean(1))
    assert CLUSTER[order.typical(Known(DIRECTIONS, labelled[:2]), 1, 0)] == 2


def test_unsure_pictures_are_unlike_each_other():
    margins = np.full(100, 0.9)
    unsure = [*range(11), 60, 61, 90, 91]  # as many as are candidates
    margins[unsure] = 0.1
    chosen = order.unsure_and_apart(Known(DIRECTIONS, NOTHING, margins), 3, 0)
    assert {*chosen} <= {*unsure}
    assert sorted(CLUSTER[chosen]) == [0, 1, 2]


def test_a_quarter_is_the_beginning_of_a_random_order():
    at_random = order.random_order([f"{i}.png" for i in range(100)], 0)
    assert sorted(at_random) == [*range(100)]
    more = order.random_order([f"{i}.png" for i in range(101)], 0)
    assert [i for i in more if i < 100] == at_random.tolist()
    labelled, margins = [], None
    for _ in range(20):
        chosen, why = order.choose(
            Known(DIRECTIONS, np.array(labelled, np.int64), margins), len(labelled), 3, 0, at_random
        )
        labelled, margins = [*labelled, *chosen], RANDOM.random(100)
        assert ("least sure" in why) == (len(labelled) - 3 >= order.COVERING)
    sample = order.drawn(at_random, labelled)
    assert {*at_random[:15].tolist()} <= {*sample.tolist()} <= {*labelled}
    assert len(order.drawn(at_random, [*at_random[5:9].tolist()])) == 0
    assert order.drawn(at_random, at_random[[*range(6), *range(7, 20)]].tolist()).tolist() == [
        *at_random[:6].tolist(),
        *at_random[7:20].tolist(),
    ]
