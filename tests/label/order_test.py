"""Which images come next, on three clusters of different sizes."""

import numpy as np
import pytest

from cpc_tf.classify import random_sample
from cpc_tf.evaluation.neighbours import normalized
from cpc_tf.label import order
from cpc_tf.label.order import Pool

RANDOM = np.random.default_rng(0)
# 60, 30 and 10 images around three corners; the last of each is an outlier.
CENTRES = np.eye(3).repeat([60, 30, 10], 0)
CLUSTER = CENTRES.argmax(1)
DIRECTIONS = normalized(
    CENTRES + 0.02 * RANDOM.normal(size=CENTRES.shape) + (np.arange(100) % 30 == 29)[:, None] * 0.3
)
NOTHING = np.zeros(0, np.int64)


@pytest.mark.parametrize("name", [*order.ORDERS])
def test_each_order_gives_unlabelled_pictures_once_and_repeats(name):
    labelled, margins = np.arange(0, 100, 7), RANDOM.random(100)
    for pool in (Pool(DIRECTIONS, NOTHING), Pool(DIRECTIONS, labelled, margins)):
        chosen = order.ORDERS[name](pool, 20, 5)
        assert chosen == order.ORDERS[name](pool, 20, 5)
        assert len({*chosen}) == 20
        assert not {*chosen} & {*pool.labelled.tolist()}
        assert sorted(order.ORDERS[name](pool, 200, 5)) == pool.free.tolist()


def test_typical_images_cover_clusters_by_size():
    chosen = order.typical(Pool(DIRECTIONS, NOTHING), 3, 0)
    assert CLUSTER[chosen].tolist() == [0, 1, 2]
    assert all(i % 30 != 29 for i in chosen)
    labelled = np.array(chosen)
    similarity = DIRECTIONS[CLUSTER == 0] @ DIRECTIONS[CLUSTER == 0].T
    assert similarity[chosen[0]].mean() > np.median(similarity.mean(1))
    assert CLUSTER[order.typical(Pool(DIRECTIONS, labelled[:2]), 1, 0)] == 2


def test_unsure_pictures_are_unlike_each_other():
    margins = np.full(100, 0.9)
    unsure = [*range(11), 60, 61, 90, 91]  # as many as are candidates
    margins[unsure] = 0.1
    chosen = order.unsure_and_apart(Pool(DIRECTIONS, NOTHING, margins), 3, 0)
    assert {*chosen} <= {*unsure}
    assert sorted(CLUSTER[chosen]) == [0, 1, 2]


def test_quarter_is_a_random_sample_independent_of_selection():
    names = [f"{i}.png" for i in range(400)]
    sample = random_sample.of(names, 0)
    assert len({*sample.tolist()}) == 100
    assert [i for i in random_sample.of([*names, "new.png"], 0).tolist() if i < 400][:90] == sample[
        :90
    ].tolist()
    sample, labelled = random_sample.of(names[:100], 0), []
    random = np.random.default_rng(0)
    margins = random.random(100)
    for _ in range(20):
        taught = np.setdiff1d(np.array(labelled, np.int64), sample)
        pool = Pool(
            DIRECTIONS,
            taught,
            margins if len(labelled) > 20 else None,
            np.array(labelled, np.int64),
        )
        chosen, why = order.choose(pool, sample, len(labelled), 3, 0)
        assert ("unsure" in why) == (len(labelled) >= order.COVERING)
        labelled += chosen
    assert len({*labelled}) == 60
    assert {*labelled} & {*sample.tolist()} == {*sample[:15].tolist()}
    assert sorted(
        order.choose(pool._replace(taken=np.array(labelled)), sample, 60, 50, 0)[0] + labelled
    ) == [*range(100)]


def test_drawn_images_are_the_labelled_start_of_sample():
    sample = np.arange(30)[::-1]
    assert random_sample.drawn(sample, [*range(20, 25)]).tolist() == []
    assert random_sample.drawn(sample, {*range(10, 30)} - {23}).tolist() == [
        29,
        28,
        27,
        26,
        25,
        24,
        *range(22, 9, -1),
    ]
