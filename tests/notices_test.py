"""The import of a package that writes to stderr."""

import os
import subprocess
import sys

import pytest

from tests.binaries import ROOT

NOISY = """
import os, sys
os.write(2, b"of the library")
print("of Python", file=sys.stderr)
"""


def _stderr(folder, code, **environment):
    environment = {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}", **environment}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stderr


@pytest.fixture
def noisy(tmp_path):
    (tmp_path / "tensorflow.py").write_text(NOISY)
    return tmp_path


def test_nothing_of_the_import_is_written(noisy):
    code = "import cpc_tf, tensorflow, sys; print(tensorflow.os is not None, 'and then', file=sys.stderr)"
    assert _stderr(noisy, code, TF_CPP_MIN_LOG_LEVEL="3") == "True and then\n"


def test_who_asks_for_notices_has_them(noisy):
    assert "of the library" in _stderr(noisy, "import cpc_tf, tensorflow", TF_CPP_MIN_LOG_LEVEL="0")
    assert "of the library" in _stderr(noisy, "import tensorflow, cpc_tf", TF_CPP_MIN_LOG_LEVEL="3")


def test_an_import_that_fails_says_why(noisy):
    (noisy / "tensorflow.py").write_text(NOISY + "raise ImportError('no such library')")
    written = _stderr(noisy, "import cpc_tf, tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
    assert "of the library" in written
    assert "no such library" in written


def test_an_import_that_ends_the_process_says_where(noisy):
    (noisy / "tensorflow.py").write_text("import os\nos.abort()")
    written = _stderr(noisy, "import cpc_tf, tensorflow", TF_CPP_MIN_LOG_LEVEL="3")
    assert "Fatal Python error: Aborted" in written
    assert "tensorflow.py" in written


def test_without_stderr(tmp_path):
    (tmp_path / "tensorflow.py").write_text("")
    command = [sys.executable, "-c", "import os; os.close(2); import cpc_tf, tensorflow; print('imported')"]
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "TF_CPP_MIN_LOG_LEVEL": "3"}
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout == "imported\n"


def test_tensorflow_itself():
    assert _stderr(ROOT, "import cpc_tf, tensorflow", TF_CPP_MIN_LOG_LEVEL="3") == ""
