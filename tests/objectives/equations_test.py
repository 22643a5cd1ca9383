"""The equations of other papers' objectives, against NumPy loops written from the papers."""

from types import SimpleNamespace

import numpy as np
import pytest
import skimage.color
import tensorflow as tf

from cpc_tf.core.keras import keras
from cpc_tf.core.settings import ConfigError, replace
from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.objectives.base import CandidatePool, area_means
from cpc_tf.objectives.others import (
    amdim,
    byol,
    colorization,
    deep_cluster,
    exemplar,
    local_aggregation,
    memory,
    pirl,
    vicreg,
)
from cpc_tf.objectives.others.cmc import CMC
from cpc_tf.objectives.others.cmc_config import CMCConfig
from cpc_tf.objectives.others.colorization_config import ColorizationConfig
from cpc_tf.objectives.others.heads import Head
from cpc_tf.objectives.others.instance_bank import InstanceBank
from cpc_tf.objectives.others.instance_bank_config import InstanceBankConfig
from cpc_tf.objectives.others.moco import MoCo
from cpc_tf.objectives.others.moco_config import MoCoConfig
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.training.strategy import make_strategy
from tests.pretrain.tiny import TINY

RANDOM = np.random.default_rng(0)


def units(*shape):
    vectors = RANDOM.normal(size=shape)
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


def softmax(logits):
    exponents = np.exp(logits - logits.max())
    return exponents / exponents.sum()


def test_byol_loss_is_squared_distance_of_unit_vectors():
    predictions, targets = RANDOM.normal(size=(2, 5, 4)).astype(np.float32)
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (predictions, targets)]
    wanted = np.mean([np.sum((p - t) ** 2) for p, t in zip(*unit)])
    assert float(byol.distance(predictions, targets)) == pytest.approx(wanted, rel=1e-5)


def test_vicreg_s_variance_and_covariance():
    vectors = (0.5 * RANDOM.normal(size=(7, 3))).astype(np.float32)
    covariance = np.cov(vectors.T, ddof=1)
    hinge = np.mean([max(0, 1 - np.sqrt(covariance[i, i] + 1e-4)) for i in range(3)])
    others = sum(covariance[i, j] ** 2 for i in range(3) for j in range(3) if i != j) / 3
    found = vicreg.variance_and_covariance(tf.constant(vectors))
    np.testing.assert_allclose(found, (hinge, others), rtol=1e-5)


def through(head, x):
    """What a `Head` makes of [N, D]: batch norm without running statistics, scale, offset and ReLU
    after each layer.
    """
    for dense, scale in zip(head.hidden, head.scales):
        x = x @ dense.kernel.numpy()
        x = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
        x = np.maximum(x * scale.gamma.numpy() + scale.beta.numpy(), 0)
    return x @ head.last.kernel.numpy() + head.last.bias.numpy()


def pretrained(name, **settings):
    """(a trainee of pre-training, a batch of four images in two views)."""
    whole = {"patch_size": 24, "patch_stride": 24, "learning_rate": 0.01, "clip_norm": 1e6}
    config = replace(TINY, objective=name, **whole, **settings)
    views = RANDOM.integers(0, 256, [4, 2, 24, 24, 3], np.uint8)
    training = Pretraining(config, make_strategy("single"), train_steps=4, images=4)
    return training, dict.fromkeys(config.objective.kind.VIEW.views, tf.constant(views))


def values(layer):
    """Place -> value of the variables, in which the order of a network that is not trained
    differs.
    """
    places = (
        layer.get_weight_paths()
        if isinstance(layer, keras.Model)
        else dict(enumerate(layer.weights))
    )
    return {place: variable.numpy() for place, variable in places.items()}


def latents_of(network, batch):
    """Of each view by itself, [B, D]."""
    (views,) = batch.values()
    return [network(views[:, i].numpy() / np.float32(255)).numpy() for i in range(2)]


def test_byol_steps_are_symmetric_and_update_the_target(
    tiny_encoder,
):
    training, batch = pretrained("byol", byol_hidden=32, byol_dim=4, byol_momentum=0.9)
    model = training.model
    pairs = [(model.target, model.encoder), (model.target_projector, model.projector)]
    for step in range(3):
        here, there = latents_of(model.encoder, batch), latents_of(model.target, batch)
        wanted = 0
        for i in range(2):
            p = through(model.predictor, through(model.projector, here[i]))
            z = through(model.target_projector, there[1 - i])
            p, z = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (p, z))
            wanted += np.mean(np.sum((p - z) ** 2, 1))
        before = [values(target) for target, _ in pairs]
        found = training.train_step(batch)
        assert float(found["loss"]) == pytest.approx(wanted, rel=1e-4)
        momentum = 1 - (1 - 0.9) * (np.cos(np.pi * (step + 1) / 4) + 1) / 2
        for (target, online), old in zip(pairs, before):
            follows = values(online)
            for place, now in values(target).items():
                wanted = momentum * old[place] + (1 - momentum) * follows[place]
                np.testing.assert_allclose(now, wanted, rtol=1e-4, atol=1e-6)
    ahead = values(model.encoder)
    assert (
        max(np.abs(ahead[place] - value).max() for place, value in values(model.target).items())
        > 1e-4
    )


def test_byol_gradient_keeps_the_target_fixed(tiny_encoder):
    """By finite differences."""
    training, batch = pretrained("byol", byol_hidden=32, byol_dim=4)
    model, (views,) = training.model, batch.values()
    with tf.GradientTape() as tape:
        loss = model(views, training=True).loss
    assert not {id(v) for v in model.trainable_variables} & {id(v) for v in model.target.variables}
    kernel = model.projector.last.kernel
    gradient = tape.gradient(loss, kernel)
    direction = tf.math.l2_normalize(gradient)
    nudged = []
    for size in (1e-2, -1e-2):
        kernel.assign_add(size * direction)
        nudged.append(float(model(views, training=True).loss))
        kernel.assign_sub(size * direction)
    assert (nudged[0] - nudged[1]) / 2e-2 == pytest.approx(float(tf.norm(gradient)), rel=2e-2)


def test_vicreg_loss_equals_the_reference_code(tiny_encoder):
    training, batch = pretrained("vicreg", vicreg_dim=5)
    model = training.model
    for _ in range(2):
        a, b = (through(model.expander, latents) for latents in latents_of(model.encoder, batch))
        hinges, others = [], []
        for z in (a, b):
            covariance = np.cov(z.T, ddof=1)
            hinges.append(np.mean([max(0, 1 - np.sqrt(covariance[i, i] + 1e-4)) for i in range(5)]))
            others.append(
                sum(covariance[i, j] ** 2 for i in range(5) for j in range(5) if i != j) / 5
            )
        wanted = 25 * np.mean((a - b) ** 2) + 25 * sum(hinges) / 2 + sum(others)
        found = {name: float(x) for name, x in training.train_step(batch).items()}
        assert found["loss"] == pytest.approx(wanted, rel=1e-4)
        assert found["variance"] == pytest.approx(sum(hinges) / 2, rel=1e-4)


def test_a_new_head_of_clusters_forgets_its_momentum(tiny_encoder):
    training, batch = pretrained("deep_cluster", deep_cluster_clusters=3)
    views = {name: x[:, :1] for name, x in batch.items()}
    training.train_step({**views, "index": tf.constant([0, 1, 2, 3], tf.int64)})
    anew = training.model.between_epochs(1, lambda: RANDOM.normal(size=(4, 6)))
    training.optimizer.forget(anew)
    moments = dict(zip((id(v) for v in training.trained), training.optimizer._momentums))
    assert {id(v) for v in anew} == {id(v) for v in training.model.head.trainable_variables}
    for variable in training.trained:
        is_new = any(variable is each for each in anew)
        assert is_new == (not moments[id(variable)].numpy().any()), variable.name


def test_exemplar_triplets_pair_an_image_with_its_group():
    vectors = units(4, 2, 5)  # two groups of two images
    losses, farther = [], []
    for anchor in range(4):
        for other in (i for i in range(4) if i != anchor and i // 2 == anchor // 2):
            near, far = (1 - vectors[anchor, 0] @ vectors[i, 1] for i in (anchor, other))
            losses.append(max(0, near - far + 0.5))
            farther.append(far > near)
    pool = CandidatePool(tf.constant(vectors.reshape(2, 2, 2, 5)), 0)
    np.testing.assert_allclose(
        exemplar.triplet_loss(vectors, pool, 0.5), (np.mean(losses), np.mean(farther)), rtol=1e-5
    )


def test_amdim_contrasts_places_across_views_with_other_images():
    # two groups of two images, three places
    sources, targets = RANDOM.normal(size=(2, 4, 2, 3, 5)).astype(np.float32)
    losses, found, squares = [], [], []
    for i, view, q in np.ndindex(4, 2, 3):
        # of the image, of the other one
        scores = targets[[i, i ^ 1], 1 - view] @ sources[i, view, q] / np.sqrt(5)
        squares.append(scores**2)
        for own in 2 * np.tanh(scores[0] / 2):
            others = 2 * np.tanh(scores[1] / 2)
            losses.append(-np.log(np.exp(own) / (np.exp(own) + np.exp(others).sum())))
            found.append(own > others.max())
    result = amdim.scored(
        tf.constant(sources), CandidatePool(tf.constant(targets.reshape(2, 2, 2, 3, 5)), 0), 2.0
    )
    np.testing.assert_allclose(result, [*map(np.mean, (losses, found, squares))], rtol=1e-5)


@pytest.mark.parametrize(
    ("side", "cells", "first"),
    [(4, 4, [1, 0, 0, 0]), (4, 2, [1, 1, 0, 0]), (3, 2, [2, 1, 0]), (4, 3, [3, 1, 0, 0])],
)
def test_area_means_cover_equal_shares_of_a_map(side, cells, first):
    maps = RANDOM.normal(size=(2, side, side, 3)).astype(np.float32)
    found = area_means(tf.constant(maps), cells, cells).numpy()
    weights = np.array(first) / np.sum(first)
    assert found.shape == (2, cells, cells, 3)
    assert area_means(tf.constant(maps), 1, side).shape == (2, 1, side, 3)
    np.testing.assert_allclose(
        found[:, 0, 0], np.einsum("h,bhwc,w->bc", weights, maps, weights), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_allclose(found.mean((1, 2)), maps.mean((1, 2)), rtol=1e-4, atol=1e-6)


def test_pirl_contrasts_bank_image_with_negatives():
    own, vectors, negatives = units(3, 4), units(3, 4), units(3, 6, 4)
    losses = []
    for m, v, others in zip(own, vectors, negatives):
        e = [np.exp(m @ v / 0.5), *(np.exp(n @ v / 0.5) for n in others)]
        of_others = sum(e[1:])
        losses.append(
            -np.log(e[0] / (e[0] + of_others)) - sum(np.log(1 - x / (x + of_others)) for x in e[1:])
        )
    assert float(pirl.nce_loss(own, vectors, negatives, 0.5)) == pytest.approx(
        np.mean(losses), rel=1e-5
    )


@pytest.mark.parametrize("background", [3, 8])
def test_local_aggregation_uses_close_and_nearest_neighbours(background):
    vectors, bank = units(4, 3), units(8, 3)
    index, clusters = np.array([0, 2, 5, 7]), RANDOM.integers(0, 3, [2, 8])
    losses = []
    for v, i in zip(vectors, index):
        p = softmax(bank @ v / 0.5)
        near = set(np.argsort(-p)[:background]) | {i}
        close = {j for j in near if (clusters[:, j] == clusters[:, i]).any()}
        losses.append(-np.log(sum(p[j] for j in close) / sum(p[j] for j in near)))
    found = local_aggregation.aggregation_loss(
        tf.constant(vectors),
        tf.constant(index),
        tf.constant(bank),
        tf.constant(clusters),
        background,
        0.5,
    )
    assert float(found) == pytest.approx(np.mean(losses), rel=1e-4)


def test_clusters_are_found_and_none_is_empty():
    corners = np.eye(3)[[0, 1, 2] * 10] + 0.01 * RANDOM.normal(size=(30, 3))
    found = deep_cluster.clusters_of(corners, count=3, components=2, seed=0)
    assert [len(set(found[i::3])) for i in range(3)] == [1, 1, 1]
    assert set(found) == {0, 1, 2}
    assert set(deep_cluster.clusters_of(np.ones((5, 3)), count=4, components=2, seed=0)) == {0}


def nce_loss(v, bank, image, step, count, temperature):
    """Wu et al. 2018, eq. 4 to 8, for one vector; Z is the mean over random vectors."""
    sphere = units(200_000, len(v))
    p = np.exp(bank @ v / temperature) / np.exp(sphere @ v / temperature).mean() / len(bank)
    noise = tf.random.stateless_uniform(
        [count], [step, image], maxval=len(bank), dtype=tf.int32
    ).numpy()
    of_noise = count / len(bank)
    return -np.log(p[image] / (p[image] + of_noise)) - sum(
        np.log(of_noise / (p[j] + of_noise)) for j in noise
    )


def test_cmc_contrasts_each_view_with_the_other_bank(tiny_encoder):
    model = CMC(make_encoder(EncoderConfig(encoder="small_lab")), CMCConfig(4, 0.5, 5, 0.9))
    model.prepare(images=6, train_steps=1)
    views, index, step = RANDOM.integers(0, 256, [2, 1, 8, 8, 3], np.uint8), np.array([4, 1]), 3
    output = model(views, index=tf.constant(index, tf.int64), step=step)
    banks, vectors = [bank.values.numpy() for bank in model.banks], []
    features = model.encoder(views[:, 0] / np.float32(255)).numpy()
    for part, head in zip((features[:, :16], features[:, 16:]), model.heads):
        found = part @ head.kernel.numpy() + head.bias.numpy()
        vectors.append(found / np.linalg.norm(found, axis=1, keepdims=True))
    losses = [
        np.mean(
            [nce_loss(v, banks[1 - view], i, step, 5, 0.5) for v, i in zip(vectors[view], index)]
        )
        for view in range(2)
    ]
    assert float(output.loss) == pytest.approx(sum(losses), rel=5e-3)
    assert float(output.metrics["of_lightness"]) == pytest.approx(losses[0], rel=5e-3)
    model.after_step(output.kept, step)
    for bank, before, of_view in zip(model.banks, banks, vectors):
        mixed = 0.9 * before[index] + 0.1 * of_view
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        np.testing.assert_allclose(bank.values.numpy()[index], mixed, rtol=1e-3, atol=1e-4)
    assert np.abs(banks[0] - banks[1]).max() > 0.1


def test_colorization_uses_nearest_bins_weighted_by_rarity(tiny_encoder):
    bins = colorization.colour_bins()
    assert bins.shape == (313, 2)  # as many as Zhang et al. have
    model = colorization.Colorization(
        make_encoder(EncoderConfig(encoder="small_grey")), ColorizationConfig(0.3)
    )
    images = RANDOM.integers(0, 256, [2, 16, 8, 3], np.uint8)
    model(images)
    frequency = RANDOM.dirichlet(np.ones(313)).astype(np.float32)
    model.frequency.assign(frequency)
    output = model(images)
    maps = model.encoder.endpoints(images / np.float32(255))["feature_map"].numpy()  # [2, 8, 4, 16]
    logits = maps @ model.head.kernel.numpy() + model.head.bias.numpy()
    weights = 1 / (0.7 * frequency + 0.3 / 313)
    weights /= np.sum(frequency * weights)
    losses, seen, height, width = [], np.zeros(313), *maps.shape[1:3]
    cells = (
        skimage.color.rgb2lab(images)[..., 1:]
        .reshape(2, height, 16 // height, width, 8 // width, 2)
        .mean((2, 4))
    )
    for colour, found in zip(cells.reshape(-1, 2), logits.reshape(-1, 313)):
        squares = np.sum((bins - colour) ** 2, 1)
        nearest = np.argsort(squares)[:5]
        z = np.zeros(313)
        z[nearest] = np.exp(-squares[nearest] / (2 * 5**2))
        z /= z.sum()
        losses.append(-weights[nearest[0]] * np.sum(z * np.log(softmax(found))))
        seen += z / len(cells.reshape(-1, 2))
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-3)
    np.testing.assert_allclose(tf.reduce_mean(output.kept["colours"], 0), seen, atol=1e-4)
    model.after_step(output.kept, 1)
    np.testing.assert_allclose(model.frequency, frequency + (seen - frequency) / 2, atol=1e-4)


@pytest.mark.parametrize("negatives", [0, 5])
def test_the_bank_s_images_are_told_apart(negatives, tiny_encoder):
    settings = InstanceBankConfig(
        instance_bank_dim=4,
        instance_bank_negatives=negatives,
        instance_bank_temperature=0.5,
        instance_bank_proximal=0.3,
    )
    model = InstanceBank(make_encoder(EncoderConfig(encoder="small")), settings)
    model.prepare(images=6, train_steps=1)
    views, index, step = RANDOM.integers(0, 256, [2, 1, 8, 8, 3], np.uint8), np.array([4, 1]), 3
    output = model(views, index=tf.constant(index, tf.int64), step=step)
    bank, vectors = model.bank.values.numpy(), output.kept["vectors"].numpy()
    losses = []
    for v, i in zip(vectors, index):
        loss = -np.log(softmax(bank @ v / 0.5)[i])
        if negatives:
            loss = nce_loss(v, bank, i, step, negatives, 0.5)
        losses.append(loss + 0.3 * np.sum((v - bank[i]) ** 2))
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=5e-3 if negatives else 1e-4)
    model.after_step(output.kept, step)
    mixed = 0.5 * bank[index] + 0.5 * vectors
    np.testing.assert_allclose(
        model.bank.values.numpy()[index],
        mixed / np.linalg.norm(mixed, axis=1, keepdims=True),
        rtol=1e-5,
    )
    np.testing.assert_array_equal(model.bank.values.numpy()[[0, 2, 3, 5]], bank[[0, 2, 3, 5]])


def test_moco_contrasts_key_with_queue_and_momentum_encoder(tiny_encoder):
    settings = MoCoConfig(moco_dim=4, moco_queue_length=5, moco_temperature=0.5, moco_momentum=0.9)
    model = MoCo(make_encoder(EncoderConfig(encoder="small")), settings)
    views = RANDOM.integers(0, 256, [2, 2, 8, 8, 3], np.uint8)
    model(views)
    model.begin()
    output, queue = model(views), model.queue.values.numpy()
    kernel, bias = (weight.numpy() for weight in model.head.weights)

    def vectors(which):
        found = model.encode(views[:, which]).numpy() @ kernel + bias
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    queries, keys = vectors(0), vectors(1)  # the copy is as the encoder at the start
    losses = [
        -np.log(softmax(np.array([q @ k, *(queue @ q)]) / 0.5)[0]) for q, k in zip(queries, keys)
    ]
    assert float(output.loss) == pytest.approx(np.mean(losses), rel=1e-4)
    model.head.kernel.assign(kernel + 1.0)
    model.after_step(output.kept, 0)
    np.testing.assert_allclose(
        model.key_head.kernel, 0.9 * kernel + 0.1 * (kernel + 1.0), rtol=1e-5
    )
    np.testing.assert_allclose(model.queue.values[:2], keys, rtol=1e-4)


def test_a_queue_overwrites_its_oldest():
    queue = memory.Queue(3, 1)
    for pushed in ([1, 2], [3, 4], [5, 6, 7, 8]):
        queue.push(tf.constant(pushed, tf.float32)[:, None])
    assert sorted(queue.values[:, 0].numpy()) == [6, 7, 8]


def test_a_head_normalizes_its_hidden_layer():
    head, x = Head([3, 2], "float32", "head"), RANDOM.normal(size=(5, 4)).astype(np.float32)
    found = head(x).numpy()
    kernel = head.hidden[0].kernel.numpy()
    gamma, beta = (w.numpy() for w in head.scales[0].weights)
    last, bias = (w.numpy() for w in head.last.weights)
    hidden = x @ kernel
    hidden = (hidden - hidden.mean(0)) / np.sqrt(hidden.var(0) + 1e-5)
    np.testing.assert_allclose(
        found, np.maximum(hidden * gamma + beta, 0) @ last + bias, rtol=1e-4, atol=1e-5
    )


def test_moco_refuses_batch_norm():
    encoder = SimpleNamespace(config=EncoderConfig(encoder="small", norm="batch"))
    with pytest.raises(
        ConfigError, match="--norm=batch: its statistics would tell --objective=moco which key"
    ):
        MoCo(encoder, MoCoConfig())
