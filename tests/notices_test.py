"""TensorFlow's start-up notices: hidden, unless the import fails or someone asks for them."""

import os
import subprocess
import sys

import pytest

from tests.binaries import ROOT

NOISY = """
import os, sys
os.write(2, b"a notice of the library")
"""
BOTH, OTHER_ORDER = "import cpc_tf, tensorflow", "import tensorflow, cpc_tf"


@pytest.mark.parametrize(
    ("library", "code", "level", "shown", "hidden"),
    [
        (NOISY, BOTH, "3", [], ["a notice"]),
        (NOISY, BOTH, "0", ["a notice"], []),
        (NOISY, OTHER_ORDER, "3", ["a notice"], []),
        (NOISY + "raise ImportError('no such library')", BOTH, "3", ["a notice", "no such library"], []),
        ("import os\nos.abort()", BOTH, "3", ["Fatal Python error: Aborted", "tensorflow.py"], []),
        (NOISY, f"{BOTH}, sys; print('our own line', file=sys.stderr)", "3", ["our own line"], ["a notice"]),
        ("", f"import os; os.close(2); {BOTH}; os.write(1, b'imported')", "3", ["imported"], []),
    ],
)
def test_notices_of_the_import(tmp_path, library, code, level, shown, hidden):
    (tmp_path / "tensorflow.py").write_text(library)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "TF_CPP_MIN_LOG_LEVEL": level}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    written = done.stdout + done.stderr
    assert all(text in written for text in shown)
    assert not any(text in written for text in hidden)


@pytest.mark.slow
def test_tensorflow_itself_is_quiet():
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "-c", BOTH], env=environment, capture_output=True, text=True)
    assert done.stderr == ""
