import logging
import os
import pathlib

import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.training.checkpoint import Checkpoints


@pytest.fixture
def run(tmp_path):
    """A run's checkpoints at steps 10, 20 and 30, whose variable holds the step."""
    value = tf.Variable(tf.zeros([100]))
    checkpoints = Checkpoints(str(tmp_path), tf.train.Checkpoint(value=value), keep=3)
    for step in (10, 20, 30):
        value.assign(tf.fill([100], float(step)))
        checkpoints.save(step)
    value.assign(tf.zeros([100]))
    return checkpoints, value


def _file(checkpoints, step, ending):
    (path,) = pathlib.Path(checkpoints.directory).glob(f"step_{step:08d}{ending}")
    return path


def test_latest_checkpoints_are_kept_and_newest_restored(run):
    checkpoints, value = run
    checkpoints.save(40)
    assert checkpoints.steps() == [20, 30, 40]
    assert len(os.listdir(checkpoints.directory)) == 6  # an index and a data file each
    value.assign(tf.fill([100], 7.0))
    assert checkpoints.restore() == 40
    assert value[0] == 0


# What happens to (the data, the index) of a checkpoint.
DAMAGE = {
    "bits": lambda data, index: data.write_bytes(with_a_wrong_byte(data.read_bytes())),
    "cut data": lambda data, index: data.write_bytes(data.read_bytes()[:50]),
    "no data": lambda data, index: data.unlink(),
    "cut index": lambda data, index: index.write_bytes(index.read_bytes()[:20]),
    "empty index": lambda data, index: index.write_bytes(b""),
    "huge index": lambda data, index: index.write_bytes(
        with_footer_of_2_60_bytes(index.read_bytes())
    ),
    "no index": lambda data, index: index.unlink(),
}


def with_a_wrong_byte(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


def with_footer_of_2_60_bytes(index):
    """An index whose last 48 bytes say that it is so long: 0, 0, 0 and that number as varints."""
    return index[:-48] + bytes([0, 0, 0, *[0x80] * 8, 0x10]).ljust(40, b"\0") + index[-8:]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_falls_back_with_a_warning(run, damage, caplog):
    checkpoints, value = run
    DAMAGE[damage](_file(checkpoints, 30, ".data*"), _file(checkpoints, 30, ".index"))
    with caplog.at_level(logging.WARNING):
        assert checkpoints.restore() == 20
    assert value[0] == 20
    # Without its index a checkpoint was never finished: that is a kill, not damage.
    assert ("step_00000030 is damaged" in caplog.text) == (damage != "no index")


def test_an_error_without_a_text_is_damage_too(run, caplog):
    def read(step):
        if step == 30:
            raise MemoryError

    with caplog.at_level(logging.WARNING):
        assert run[0].read_first([30, 20], read) == 20
    assert "step_00000030 is damaged (MemoryError)" in caplog.text


@pytest.mark.parametrize(
    "state",
    [{"value": tf.Variable([1.0])}, {"other": tf.Variable(1.0)}],
    ids=["another shape", "another name"],
)
def test_a_checkpoint_of_another_network_is_one_line(run, state):
    other = Checkpoints(os.path.dirname(run[0].directory), tf.train.Checkpoint(**state))
    with pytest.raises(
        ConfigError, match="--workdir=.*its checkpoint of step 30 is for another network"
    ):
        other.restore()


def test_all_damaged_checkpoints_are_an_error_naming_workdir(run):
    checkpoints, _ = run
    for step in checkpoints.steps():
        _file(checkpoints, step, ".data*").unlink()
    with pytest.raises(ConfigError, match="--workdir=.*none of its checkpoints"):
        checkpoints.restore()


def test_later_checkpoints_are_dropped_and_only_chief_writes(run):
    checkpoints, _ = run
    checkpoints.drop_after(10)
    assert checkpoints.steps() == [10]
    before = sorted(os.listdir(checkpoints.directory))
    # containers often give all their processes the same id
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        written = []
        patch.setattr(
            checkpoints.state,
            "write",
            lambda path: written.append(path) or tf.io.gfile.makedirs(path),
        )
        for worker in (1, 2):
            checkpoints.save(40, worker)
    assert [os.path.relpath(path, checkpoints.directory) for path in written] == [
        "worker_1/step",
        "worker_2/step",
    ]
    assert sorted(os.listdir(checkpoints.directory)) == before


def test_unreachable_bucket_is_not_a_damaged_checkpoint(run, monkeypatch):
    checkpoints, _ = run

    def read(path):
        raise tf.errors.UnavailableError(None, None, "try again")

    monkeypatch.setattr(checkpoints.state, "read", read)
    with pytest.raises(tf.errors.UnavailableError):
        checkpoints.restore()
    assert checkpoints.steps() == [10, 20, 30]
