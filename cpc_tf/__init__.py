"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020."""

import os

__version__ = "0.1.0"

# TensorFlow reads this once, when it is first imported: its start-up notices would bury our own lines. An explicit
# setting of the user's wins.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
