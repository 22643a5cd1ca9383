import os

# Before TensorFlow is imported: on several threads the tiny steps of tests wait longer than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import cpc_tf  # noqa: F401, quietens TensorFlow, so it comes before it
