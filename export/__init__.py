"""`python -m export` in a checkout; the code is in `cpc_tf.export`."""
