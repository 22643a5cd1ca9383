"""A run -> a TF-Hub module: `python -m cpc_tf.export --workdir=W --output=HUB_DIR`."""
