"""Phases that share an encoder: each starts from its values as they came."""

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf import cli
from cpc_tf.efficient import phases
from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import prepare
from tests import samples

pytestmark = pytest.mark.slow
FLAGS = """
    --test_split=val --resize=16 --image_size=16 --augment=none --encoder=random --backbone=tiny --head_blocks=0
    --batch_size=4 --cached_views=1 --train_steps=1 --finetune_steps=2 --encoder_adam=paper --held_out=0
    --strategy=single
""".split()


@pytest.fixture
def run(tmp_path):
    """(settings, phases, the trained first phase) on a new network."""
    folder = samples.write_pictures(tmp_path / "pictures", {"train": 4, "val": 2})
    here = [f"--dataset=folder:{folder}", f"--workdir={tmp_path}/run"]
    config = cli.parse(EfficientConfig, [*FLAGS, *here, f"--data_dir={tmp_path}/cache"])
    made = prepare(config, tf.distribute.get_strategy())[1]
    return config, made, made.first(phases.folder(config, "frozen"), "chosen")


def test_each_trial_of_fine_tuning_starts_from_the_same_weights_and_averages(run):
    config, made, first = run
    came = [variable.numpy() for variable in made.encoder.trainable_variables]

    def tuned(name, steps):
        return made.fine_tune(phases.folder(config, name), first, "chosen", steps)[0]

    tuned("one", 2)
    assert any(not np.array_equal(v, before) for v, before in zip(made.encoder.trainable_variables, came))
    second = tuned("two", 0)
    for variable, average, before in zip(made.encoder.trainable_variables, second.average.averages, came):
        np.testing.assert_array_equal(variable, before)
        np.testing.assert_array_equal(average, before)
