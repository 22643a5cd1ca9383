"""A run -> a TF-Hub module: `cpc-tf export --workdir=W --output=HUB_DIR`."""
