"""`python -m export` in a checkout is `cpc-tf export`; its code is in `cpc_tf.export`. The wheel does not have it."""
