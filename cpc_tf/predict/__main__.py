"""`python -m cpc_tf.predict` is `cpc-tf predict`."""

import sys

from cpc_tf.program import main

if __name__ == "__main__":
    sys.exit(main("predict"))
