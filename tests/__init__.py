import os

# Before TensorFlow is imported: on several threads the tiny steps of tests wait longer than they
# compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import cpc_tf

cpc_tf.prepare_environment()
