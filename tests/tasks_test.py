"""Which task a run is of; tests/conformance_test.py reads those of sound runs."""

import pytest

from cpc_tf.settings import ConfigError
from cpc_tf.tasks import read_task


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"task": "cooking"}', '{"task": ["linear"]}'])
def test_no_run_of_a_known_task_is_one_line(content, tmp_path):
    if content:
        (tmp_path / "run.json").write_text(content)
    (tmp_path / "run.flags").write_text("--recipe=soup\n")
    with pytest.raises(ConfigError, match=r"holds no run of .*linear|run.json(: is damaged| names none of .*linear)"):
        read_task(str(tmp_path))
