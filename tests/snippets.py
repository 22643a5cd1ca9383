"""Runs the code that documents show, as its readers do: in a process of its own, without this
project.
"""

import os
import re
import subprocess
import sys

import tensorflow as tf

# For TensorFlow 2.16 and later. With 2.15 it only makes `fit` convert all of tf-keras by autograph,
# which takes 30 s.
_KERAS = 'os.environ["TF_USE_LEGACY_KERAS"] = "1"'


def python_of(text, place=0):
    """The Python code of a document, or its block at this place."""
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[place]


def printed(code, then, folder):
    """What the code, and some lines after it, print in a folder; the last line."""
    code = code.replace(_KERAS, "") if tf.__version__ < "2.16" else code
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone = "import sys; sys.modules['cpc_tf'] = None  # importing it fails"
    command = [sys.executable, "-c", f"{alone}\n{code}\n{then}"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]
