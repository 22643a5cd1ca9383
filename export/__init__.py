"""`python -m export` in a checkout; the code is in `cpc_tf.export`."""

import cpc_tf  # noqa: F401 which heeds signals from here on
