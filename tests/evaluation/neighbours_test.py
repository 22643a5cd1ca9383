"""Neighbours, repeats and farthest-first against what plain loops find."""

import numpy as np
import pytest

from cpc_tf.evaluation import neighbours
from cpc_tf.evaluation.neighbours import normalized


@pytest.fixture
def features():
    random = np.random.default_rng(0).normal(size=[50, 6])
    return normalized(random + 3)


def test_normalized_features_are_centred_and_of_length_1(features):
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-5)
    moved = normalized(np.array([[4.0, 0], [2, 0], [9, 9]]), np.array([3.0, 0]))
    np.testing.assert_allclose(
        moved, [[1, 0], [-1, 0], [6 / np.hypot(6, 9), 9 / np.hypot(6, 9)]], rtol=1e-5
    )
    assert np.isfinite(normalized(np.ones([3, 2]))).all()


def test_nearest_others_are_most_similar_excluding_the_query(features):
    query_ids, ids = ["a", "no such"], ["a", *range(48), "a"]
    rows, centred = (
        neighbours.nearest_others(features[:2], features, 3, query_ids, ids),
        features - features.mean(0),
    )
    cosines = centred @ centred.T / np.outer(*[np.linalg.norm(centred, axis=1)] * 2)
    for query, (query_id, near) in enumerate(zip(query_ids, rows)):
        others = [i for i in range(50) if ids[i] != query_id]
        wanted = sorted(others, key=lambda i: -cosines[query, i])[:3]
        assert [index for index, _ in near] == wanted
        np.testing.assert_allclose(
            [cosine for _, cosine in near], cosines[query, wanted], rtol=1e-4
        )


def test_repeats_leave_one_of_each_group(features, monkeypatch):
    monkeypatch.setattr(neighbours, "_BLOCK", 7)
    copies = np.concatenate([features, features[[3, 3, 20]]])
    found = neighbours.repeats(copies, 0.999)
    assert sorted((i, j) for i, j, _ in found) == [(50, 3), (51, 3), (52, 20)]
    assert all(cosine > 0.999 for *_, cosine in found)
    kept = set(range(50)) - {i for i, *_ in neighbours.repeats(features, 0.5)}
    for i in range(50):  # whatever is left out is like an earlier one
        assert i in kept or max(features[i] @ features[j] for j in range(i)) >= 0.5
    cosines = [cosine for *_, cosine in neighbours.repeats(features, -1)]
    assert len(cosines) == 49
    assert cosines == sorted(cosines, reverse=True)


@pytest.mark.parametrize("known", [(), (4, 9)])
def test_farthest_first_against_loops(features, known):
    chosen, wanted = [*known], []
    if not known:
        away = [np.linalg.norm(row - features.mean(0)) for row in features]
        wanted = chosen = [int(np.argmin(away))]
    while len(wanted) < 12:
        gaps = [
            -1 if i in chosen else min(np.linalg.norm(row - features[j]) for j in chosen)
            for i, row in enumerate(features)
        ]
        wanted = [*wanted, int(np.argmax(gaps))]
        chosen = [*known, *wanted]
    assert neighbours.farthest_first(features, 12, known) == wanted
    assert sorted(neighbours.farthest_first(features, 99, known)) == [
        i for i in range(50) if i not in known
    ]
