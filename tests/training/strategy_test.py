import json
from types import SimpleNamespace

import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.training import strategy as strategies
from cpc_tf.training.config import TrainingConfig
from cpc_tf.training.strategy import is_chief, make_strategy, strategy_of, wants_xla


def test_single_and_auto_are_one_device_here():
    for name in ("single", "auto"):
        strategy = strategy_of(TrainingConfig(strategy=name))
        assert strategy.num_replicas_in_sync == 1
        # A second one would share the keys of its collectives.
        assert strategy_of(TrainingConfig(strategy=name)) is strategy


@pytest.mark.parametrize(
    ("gpus", "batch", "used"), [(1, 32, 1), (2, 32, 2), (3, 32, 2), (8, 12, 6), (5, 7, 1)]
)
def test_auto_uses_most_gpus_dividing_the_batch(gpus, batch, used, monkeypatch):
    made = []
    names = [f"/device:GPU:{number}" for number in range(gpus)]
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda _: [tf.config.LogicalDevice(n, "GPU") for n in names],
    )

    def make(name, tpu, devices):
        made.append((name, devices))
        return SimpleNamespace(num_replicas_in_sync=used)

    monkeypatch.setattr(strategies, "make_strategy", make)
    strategy_of(TrainingConfig(batch_size=batch, deterministic=False))
    assert made == [("mirrored" if used > 1 else "single", tuple(names[:used]))]


@pytest.mark.parametrize(
    ("replicas", "batch", "why"),
    [
        (3, 32, "cannot be divided among the 3 replicas of --strategy=mirrored; 30 or 33 can"),
        (5, 2, "cannot be divided among the 5 replicas of --strategy=mirrored; 5 can"),
    ],
)
def test_batch_not_divisible_by_replicas_is_refused(replicas, batch, why, monkeypatch):
    monkeypatch.setattr(
        strategies, "make_strategy", lambda *_: SimpleNamespace(num_replicas_in_sync=replicas)
    )
    with pytest.raises(ConfigError, match=f"^--batch_size={batch}: {why}$"):
        strategy_of(TrainingConfig(batch_size=batch, strategy="mirrored", deterministic=False))


@pytest.mark.parametrize("deterministic", [True, False])
def test_run_gets_its_strategy_and_deterministic_kernels(monkeypatch, deterministic):
    """Mirrored, on the logical CPUs, where there is no GPU."""
    asked = []
    monkeypatch.setattr(tf.config.experimental, "enable_op_determinism", lambda: asked.append(True))
    strategy = strategy_of(TrainingConfig(strategy="mirrored", deterministic=deterministic))
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == len(tf.config.list_logical_devices("CPU"))
    assert bool(asked) is deterministic


def test_missing_tpu_is_one_error_line():
    with pytest.raises(ConfigError, match=r"--strategy=tpu --tpu=nowhere: no TPU answers"):
        make_strategy("tpu", "nowhere")


@pytest.mark.parametrize(("setting", "wanted"), [("on", True), ("off", False), ("auto", False)])
def test_xla_is_off_by_default_on_a_cpu(setting, wanted):
    assert not tf.config.list_logical_devices("GPU")
    assert wants_xla(setting, make_strategy("single")) is wanted


WORKERS = {"worker": ["a:1", "b:1"]}
WITH_CHIEF = {**WORKERS, "chief": ["c:1"], "ps": ["d:1"]}


def _in_cluster(monkeypatch, cluster, *task):
    """Makes this process one of a cluster: the kind of the task, and its index."""
    monkeypatch.setenv(
        "TF_CONFIG", json.dumps({"cluster": cluster, "task": dict(zip(("type", "index"), task))})
    )


@pytest.mark.parametrize(
    ("cluster", "task", "chief"),
    [
        (WORKERS, ("worker", 0), True),
        (WORKERS, ("worker", 1), False),
        (WORKERS, ("worker", "0"), True),  # as some schedulers write it
        (WITH_CHIEF, ("chief", 0), True),
        (WITH_CHIEF, ("worker", 0), False),
    ],
)
def test_of_several_workers_one_is_the_chief(monkeypatch, cluster, task, chief):
    _in_cluster(monkeypatch, cluster, *task)
    assert is_chief("multiworker") is chief
    assert is_chief("tpu")


@pytest.mark.parametrize("task", [("ps", 0), ("chief", 0), ("worker", 2), ()])
def test_process_outside_the_training_is_refused(monkeypatch, task):
    _in_cluster(monkeypatch, {**WORKERS, "ps": ["d:1"]}, *task)
    with pytest.raises(
        ConfigError, match="^--strategy=multiworker: the task in TF_CONFIG is {.*must be a 'chief'"
    ):
        is_chief("multiworker")


@pytest.mark.parametrize(
    "cluster", [{"worker": ["a:1", "b:1", "a:1"]}, {"chief": ["a:1"], "worker": ["a:1"]}]
)
def test_two_processes_at_one_address_are_refused(monkeypatch, cluster):
    """They would wait for a third until they give up."""
    _in_cluster(monkeypatch, cluster, "worker", 0)
    with pytest.raises(
        ConfigError, match="^--strategy=multiworker: several processes .* have the address a:1;"
    ):
        is_chief("multiworker")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "is not set"),
        ("", "is not set"),
        ("{}", "names no processes"),
        ('{"cluster": {"worker": []}}', "names no 'chief' and no 'worker' .only worker"),
        (
            '{"cluster": {"ps": ["a:1"]}, "task": {"type": "ps"}}',
            "names no 'chief' and no 'worker' .only ps.",
        ),
    ],
)
def test_several_workers_without_a_cluster_are_refused(monkeypatch, text, why):
    """A machine whose `export` was lost would train another run alone."""
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if text is not None:
        monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        ConfigError, match=f"^--strategy=multiworker: the environment variable TF_CONFIG {why}"
    ):
        strategy_of(TrainingConfig(strategy="multiworker"))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"cluster": ["a:1"]}',
        '{"task": 5}',
        '{"cluster": {"worker": 1}}',
        '{"cluster": {"worker": "a:1"}}',
    ],
)
def test_a_damaged_tf_config_is_one_line(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(
        ConfigError, match="^TF_CONFIG=.*: is not the JSON object that TensorFlow expects$"
    ):
        is_chief("multiworker")


@pytest.mark.parametrize(
    ("cluster", "warned"), [(WORKERS, True), ({"worker": ["a:1"]}, False), ({}, False)]
)
def test_cluster_unused_by_the_strategy_is_named(monkeypatch, caplog, cluster, warned):
    _in_cluster(monkeypatch, cluster, "worker", 0)
    strategy_of(TrainingConfig(strategy="single"))
    assert (
        "TF_CONFIG names 2 processes, but with --strategy=single each trains by itself"
        in caplog.text
    ) is warned


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
        monkeypatch.setattr(
            tf.config.threading, f"set_{name}_op_parallelism_threads", chosen.append
        )
    monkeypatch.setattr(strategies.devices.os, "sched_getaffinity", lambda _: set(range(cores)))
    strategies.share_cores(TrainingConfig(**settings), parts)
    assert chosen == list(wanted or [])
