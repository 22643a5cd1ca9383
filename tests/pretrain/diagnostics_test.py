import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.evaluation.neighbours import nearest_neighbour_accuracy
from cpc_tf.pretrain.diagnostics import Health, latent_statistics, sample_latents


@pytest.mark.parametrize(("images", "places"), [(8, (7, 7)), (300, ()), (6, (3,)), (16, (4, 4))])
def test_samples_of_parts_add_up_to_the_batch(images, places):
    latents = tf.random.stateless_normal([images, *places, 2], [0, 1])
    flat = latents.numpy().reshape(-1, 2)
    wanted = flat[:: max(1, len(flat) // 256)][:256]
    half = images // 2
    parts = [
        sample_latents(latents[:half], images),
        sample_latents(latents[half:], images, tf.constant(half)),
    ]
    np.testing.assert_array_equal(sample_latents(latents, images), wanted)
    np.testing.assert_array_equal(parts[0] + parts[1], wanted)


def test_statistics_equal_the_covariances():
    latents = np.random.default_rng(0).normal(1, 2, [8, 2, 2, 6]).astype(np.float32) * np.arange(
        1, 7
    )
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


ALIKE, ONE_DIRECTION, GOOD = (
    {"feature_std": spread, "effective_rank": rank}
    for spread, rank in ((0.001, 5.0), (0.5, 1.1), (0.5, 5.0))
)


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([ALIKE] * 4, "nearly the same latents"),
        ([ONE_DIRECTION] * 4, "a single direction"),
        ([GOOD] * 4, None),
        ([ALIKE, GOOD, ALIKE, GOOD], None),  # one bad look
        ([{"loss": 1.0}] * 4, None),  # an objective without latents
    ],
)
def test_lasting_collapse_is_reported_once_with_its_reason(records, said):
    health = Health(patience=2)
    first, second, *later = (health.warning(step, record) for step, record in enumerate(records))
    assert (first, later) == (None, [None, None])
    assert said in second if said else second is None


def test_an_example_is_not_its_own_neighbour():
    # Each example's only neighbour is of the other class.
    assert nearest_neighbour_accuracy(np.array([[1.0, 0], [-1.0, 0]]), np.array([0, 1])) == 0.0
