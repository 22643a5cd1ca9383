"""CPC v2 in TensorFlow: Henaff et al., "Data-Efficient Image Recognition with CPC", ICML 2020."""

import os
import sys

from cpc_tf.notices import QuietImport

__version__ = "0.1.0"

# TensorFlow reads this once, when it is first imported: its start-up notices would bury our own lines. An explicit
# setting of the user's wins.
if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "3" and "tensorflow" not in sys.modules:
    sys.meta_path.insert(0, QuietImport("tensorflow"))
