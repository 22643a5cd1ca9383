"""`python -m export`, and `python -m cpc_tf.export`: `cpc-tf export`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("export"))
