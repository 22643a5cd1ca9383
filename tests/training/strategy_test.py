import json

import pytest
import tensorflow as tf

from cpc_tf.settings import ConfigError
from cpc_tf.training import strategy as strategies
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.strategy import is_chief, make_strategy, strategy_of, wants_xla


def test_single_and_auto_are_one_device_here():
    for name in ("single", "auto"):
        strategy = make_strategy(name)
        assert strategy.num_replicas_in_sync == 1


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_run_gets_its_strategy_and_reproducible_kernels_if_it_asks(monkeypatch, deterministic):
    asked = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: asked.append(True))
    strategy = strategy_of(TrainingConfig(strategy="mirrored", deterministic=deterministic))
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert bool(asked) is deterministic


def test_mirrored_takes_the_logical_cpus_where_there_is_no_gpu(two_replicas):
    assert two_replicas.num_replicas_in_sync == 2


def test_a_missing_tpu_is_one_line_that_says_so():
    with pytest.raises(ConfigError, match=r"--strategy=tpu --tpu=nowhere: no TPU answers") as error:
        make_strategy("tpu", "nowhere")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("setting", "wanted"), [("on", True), ("off", False), ("auto", False)])
def test_xla_is_off_by_default_on_a_cpu(setting, wanted):
    assert not tf.config.list_logical_devices("GPU")
    assert wants_xla(setting, make_strategy("single")) is wanted


@pytest.mark.parametrize(("task", "chief"), [(("worker", 0), True), (("worker", 1), False), (("chief", 0), True)])
def test_of_several_workers_one_is_the_chief(monkeypatch, task, chief):
    cluster = {"worker": ["a:1", "b:1"], "chief": ["c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": dict(zip(("type", "index"), task))}))
    assert is_chief(TrainingConfig(strategy="multiworker")) is chief
    assert is_chief(TrainingConfig(strategy="tpu"))


@pytest.mark.parametrize(
    ("parts", "cores", "settings", "wanted"),
    [
        (2, 2, {}, (1, 2)),
        (2, 16, {}, (8, 16)),
        (2, 1, {}, (1, 2)),
        (1, 2, {}, None),
        (2, 2, {"strategy": "tpu"}, None),
        (2, 2, {"tpu": "local"}, None),
    ],
)
def test_parts_share_the_cores(parts, cores, settings, wanted, monkeypatch):
    chosen = []
    for name in ("intra", "inter"):
        monkeypatch.setattr(tf.config.threading, f"set_{name}_op_parallelism_threads", chosen.append)
    monkeypatch.setattr(strategies.os, "sched_getaffinity", lambda _: set(range(cores)))
    strategies.share_cores(TrainingConfig(**settings), parts)
    assert chosen == list(wanted or [])


def test_cores_are_not_shared_once_tensorflow_has_begun():
    tf.zeros([])
    threads = tf.config.threading.get_intra_op_parallelism_threads()
    strategies.share_cores(TrainingConfig(), 2)
    assert tf.config.threading.get_intra_op_parallelism_threads() == threads
