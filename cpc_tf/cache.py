"""The folder of files that are made once and kept between runs."""

from __future__ import annotations

import os


def folder() -> str:
    """Returns CPC_TF_CACHE, or the folder cpc_tf of XDG_CACHE_HOME, or ~/.cache/cpc_tf. It need not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("CPC_TF_CACHE") or os.path.join(home, "cpc_tf")
