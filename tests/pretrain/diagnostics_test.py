import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.pretrain.diagnostics import Health, latent_statistics, sample_latents


def test_effective_rank_counts_equal_directions():
    # 256 latents along three orthogonal directions with equal variance.
    latents = np.zeros([64, 2, 2, 10], np.float32)
    flat = latents.reshape(-1, 10)
    for i in range(256):
        flat[i, i % 3] = 1 if (i // 3) % 2 else -1
    statistics = latent_statistics(sample_latents(tf.constant(flat.reshape(64, 2, 2, 10)), 64))
    assert float(statistics["effective_rank"]) == pytest.approx(3, abs=0.05)
    assert float(statistics["feature_std"]) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("images", "places"), [(8, (7, 7)), (300, ()), (6, (3,)), (16, (4, 4))])
def test_the_samples_of_parts_add_up_to_that_of_the_batch(images, places):
    latents = tf.random.stateless_normal([images, *places, 2], [0, 1])
    flat = latents.numpy().reshape(-1, 2)
    wanted = flat[:: max(1, len(flat) // 256)][:256]
    half = images // 2
    parts = [sample_latents(latents[:half], images), sample_latents(latents[half:], images, tf.constant(half))]
    np.testing.assert_array_equal(sample_latents(latents, images), wanted)
    np.testing.assert_array_equal(parts[0] + parts[1], wanted)


def test_statistics_equal_the_covariances():
    latents = np.random.default_rng(0).normal(1, 2, [8, 2, 2, 6]).astype(np.float32) * np.arange(1, 7)
    flat = latents.reshape(-1, 6)
    eigenvalues = np.linalg.eigvalsh(np.cov(flat.T, bias=True))
    statistics = latent_statistics(tf.constant(flat))
    assert float(statistics["effective_rank"]) == pytest.approx(
        eigenvalues.sum() ** 2 / (eigenvalues**2).sum(), rel=1e-3
    )
    assert float(statistics["feature_std"]) == pytest.approx(
        np.sqrt(flat.var(0).mean() / np.square(flat).mean()), rel=1e-3
    )


def test_latents_all_alike_are_zero_not_nan():
    statistics = latent_statistics(tf.ones([18, 4]))
    assert float(statistics["feature_std"]) == 0
    assert float(statistics["effective_rank"]) == 0


@pytest.mark.parametrize(
    ("feature_std", "effective_rank", "said"),
    [(0.001, 5.0, "nearly the same latents"), (0.5, 1.1, "a single direction"), (0.5, 5.0, None)],
)
def test_collapse_is_said_once_with_its_reason(feature_std, effective_rank, said):
    health = Health(patience=2)
    record = {"feature_std": feature_std, "effective_rank": effective_rank}
    assert health.warning(10, record) is None
    warnings = [health.warning(step, record) for step in (20, 30, 40)]
    if said:
        assert said in warnings[0]
    assert warnings[1:] == [None, None]


def test_one_bad_look_is_not_a_collapse():
    health = Health(patience=2)
    bad, good = {"feature_std": 0.0, "effective_rank": 1.0}, {"feature_std": 0.5, "effective_rank": 9.0}
    assert [health.warning(i, record) for i, record in enumerate([bad, good, bad, good])] == [None] * 4


def test_an_objective_without_latents_has_no_health():
    assert [Health(patience=1).warning(step, {"loss": 1.0}) for step in (1, 2)] == [None, None]


def test_neighbours_of_clusters_are_right_and_of_noise_are_chance():
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    clusters = random.normal(0, 1, [4, 8])[labels] * 5 + random.normal(0, 0.1, [120, 8])
    assert nearest_neighbour_accuracy(clusters, labels) == 1.0
    assert nearest_neighbour_accuracy(random.normal(0, 1, [120, 8]), labels) < 0.5


def test_an_example_is_not_its_own_neighbour():
    # Each example's only neighbour is of the other class.
    assert nearest_neighbour_accuracy(np.array([[1.0, 0], [-1.0, 0]]), np.array([0, 1])) == 0.0
