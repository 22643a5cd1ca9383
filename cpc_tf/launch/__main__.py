"""`python -m cpc_tf.launch` is `cpc-tf launch`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("launch"))
