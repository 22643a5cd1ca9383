"""A run -> a TF-Hub module: `python -m export --workdir=W --output=HUB_DIR`."""
