"""Every objective of the registry: what it says of itself, a compiled step of it, a run that is resumed and probed."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.objectives import OBJECTIVES
from cpc_tf.objectives.base import Figure
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import ConfigError, leaves, replace

pytestmark = pytest.mark.usefixtures("tiny_encoder")
TINY = replace(
    PretrainConfig(),
    dataset="photos/40",
    split="unlabelled",
    resize=32,
    image_size=32,
    patch_size=8,
    patch_stride=8,
    steps_to_ignore=0,
    steps_to_predict=1,
    encoder="small",
    context_blocks=1,
    context_dim=8,
    batch_size=4,
    steps_per_loop=1,
    checkpoint_every=2,
    learning_rate=0.001,
    probe_split="test",
    probe_every=4,
)
WHOLE_IMAGES = [name for name, objective in OBJECTIVES.items() if objective.VIEW.whole]


def tiny(name, **changes):
    return replace(TINY, objective=name, patch_size=32 if name in WHOLE_IMAGES else 8, **changes)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(tmp_path_factory.mktemp("data"))


def weights(workdir, step):
    reader = tf.train.load_checkpoint(f"{workdir}/checkpoints/step_{step:08d}")
    names = [name for name in reader.get_variable_to_dtype_map() if name.endswith("VARIABLE_VALUE")]
    return {name: reader.get_tensor(name) for name in names}


def test_they_are_there():
    assert set(OBJECTIVES) >= {"cpc", "rotation", "relative_position", "instance"}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_it_says_what_it_is(name):
    objective = OBJECTIVES[name]
    assert name == objective.NAME
    assert objective.TITLE
    assert objective.SUMMARY.endswith(")")  # the paper
    for figure in objective.FIGURES.values():
        assert isinstance(figure, Figure)
        assert figure.form.format(0.5)
    settings = [field.name for _, field in leaves(PretrainConfig)]
    assert len(settings) == len(set(settings))


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_compiles_and_returns_its_metrics(name):
    config = tiny(name, xla="on")
    training = Pretraining(config, tf.distribute.get_strategy(), 10)
    view = OBJECTIVES[name].VIEW
    noise = np.random.default_rng(0).integers(0, 256, [4, *view.shape(config.geometry)], dtype=np.uint8)
    batch = {view.key: tf.constant(noise)}
    compiled = tf.function(training.train_step, autograph=False, jit_compile=True)
    losses = [compiled(batch)["loss"] for _ in range(2)]
    plain = Pretraining(replace(config, xla="off"), tf.distribute.get_strategy(), 10).train_step(batch)
    assert set(plain) == set(training.metric_names) >= set(OBJECTIVES[name].FIGURES) - {"knn"}
    assert float(losses[0]) == pytest.approx(float(plain["loss"]), rel=1e-3)
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_resumed_run_is_the_whole_one_to_the_last_bit(name, data_dir, tmp_path):
    config = tiny(name, data_dir=data_dir)
    result = pretrain(replace(config, train_steps=4, workdir=f"{tmp_path}/whole"))
    assert result["identity"]["trained_by"] == name
    assert 0 < result["knn"] <= 1
    resumed = replace(config, workdir=f"{tmp_path}/resumed")
    pretrain(replace(resumed, train_steps=2))
    again = pretrain(replace(resumed, train_steps=4))
    assert again["loss"] == result["loss"]
    whole, parts = (weights(tmp_path / run, 4) for run in ("whole", "resumed"))
    assert whole.keys() == parts.keys()
    for key, value in whole.items():
        np.testing.assert_array_equal(value, parts[key], err_msg=key)


@pytest.mark.parametrize("name", WHOLE_IMAGES)
def test_whole_images_are_one_patch(name):
    with pytest.raises(ConfigError, match="^--patch_size=8: this objective sees whole images.*--patch_size=32"):
        replace(tiny(name), patch_size=8)


def test_the_flags_of_a_run_before_there_was_a_choice_are_cpcs():
    assert PretrainConfig().objective.objective == "cpc"
    assert PretrainConfig().objective.settings == PretrainConfig().objective.cpc
