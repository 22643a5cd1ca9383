"""The functions for Python, which `cpc_tf` offers under their names. They take what the flags of the commands take."""

from cpc_tf import environment

environment.prepare()
