"""A resumed run has the levels that it began with, or is refused."""

import pytest

from cpc_tf import cli
from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.settings import ConfigError
from cpc_tf.training.levels import keep
from cpc_tf.training.workdir import Workdir


@pytest.fixture
def workdir(tmp_path):
    return Workdir(cli.parse(PretrainConfig, [f"--workdir={tmp_path}/run", "--encoder=small"]), "pretrain")


def test_a_run_keeps_its_levels(workdir):
    keep(workdir, (900.0, 1300.0))
    keep(workdir, (1000.0, 1400.0))  # the first start was refused before the run began
    workdir.begin(0)
    keep(workdir, (1000.0, 1400.0))
    with pytest.raises(ConfigError) as error:
        keep(workdir, (1000.0, 1401.0))
    assert "began with 1000 to 1400 as the values of 16-bit pictures" in str(error.value)
    assert "now give 1000 to 1401; put the files back" in str(error.value)
    with pytest.raises(ConfigError, match="now give the upper 8 bits"):
        keep(workdir, None)


def test_a_run_without_a_note_used_the_upper_8_bits(workdir, tmp_path):
    keep(workdir, None)
    assert not list(tmp_path.iterdir())
    workdir.begin(0)
    keep(workdir, None)
    with pytest.raises(ConfigError, match="began with the upper 8 bits"):
        keep(workdir, (1000.0, 1400.0))
