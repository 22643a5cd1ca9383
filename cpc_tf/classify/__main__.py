"""`python -m cpc_tf.classify` is `cpc-tf classify`."""

import sys

from cpc_tf.core.program import main

if __name__ == "__main__":
    sys.exit(main("classify"))
