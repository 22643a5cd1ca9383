"""Networks of ours as models of Keras 3, which can be trained."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.encoders.config import EncoderConfig
from cpc_tf.encoders.network import make_encoder
from cpc_tf.export.runtimes import keras3
from cpc_tf.keras import keras as keras2

pytestmark = pytest.mark.skipif(not keras2.__name__.startswith("tf_keras"), reason="this TensorFlow has Keras 2")


def network(**settings):
    """A network whose variables, those of the norms and their statistics too, are not as new."""
    keras2.utils.set_random_seed(0)
    made = make_encoder(EncoderConfig(**settings))
    made(tf.zeros([1, 32, 32, 3]))
    for i, variable in enumerate(made.variables):
        variable.assign(variable * (1.3 + 0.2 * np.sin(i)) + (0.1 if variable.shape.rank == 1 else 0))
    return made


@pytest.mark.parametrize(
    ("norm", "order"), [("layer", "pre"), ("channel", "post"), ("batch", "pre"), ("batch", "post"), ("none", "pre")]
)
def test_all_endpoints_are_those_of_the_network(norm, order):
    import keras

    ours = network(encoder="tiny", norm=norm, block_order=order)
    model = keras3.model(ours)
    assert model.count_params() == sum(np.prod(v.shape) for v in ours.variables)
    names = ["features", "feature_map", "stack1", "stack2", "stack3"]
    endpoints = keras.Model(model.inputs, {name: model.get_layer(name).output for name in names})
    for height, width in ((32, 32), (29, 51)):
        images = np.random.default_rng(0).uniform(size=[2, height, width, 3]).astype(np.float32)
        wanted = ours.endpoints(images)
        assert set(wanted) == set(names)
        for name, values in endpoints(images).items():
            np.testing.assert_allclose(values, wanted[name], atol=2e-5 * np.abs(wanted[name]).max(), err_msg=name)


@pytest.mark.slow
def test_the_stem_of_the_large_networks():
    ours = network(encoder="resnet50", output_stack=1)
    images = np.random.default_rng(0).uniform(size=[1, 45, 32, 3]).astype(np.float32)
    wanted = ours(images).numpy()
    np.testing.assert_allclose(keras3.model(ours)(images), wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.slow
def test_it_is_saved_whole_and_can_be_fine_tuned(tmp_path):
    import keras

    keras3.model(network(encoder="tiny")).save(tmp_path / "encoder.keras")
    encoder = keras.saving.load_model(tmp_path / "encoder.keras")
    classifier = keras.Sequential([encoder, keras.layers.Dense(2)])
    labels = np.arange(8) % 2
    images = np.random.default_rng(0).uniform(size=[8, 16, 16, 3]).astype(np.float32) * (
        0.3 + labels[:, None, None, None]
    )
    before = [variable.numpy() for variable in encoder.trainable_variables]
    classifier.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = classifier.fit(images, labels, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    assert len(before) == len(encoder.variables)
    assert all(np.any(new.numpy() != old) for new, old in zip(encoder.trainable_variables, before))
