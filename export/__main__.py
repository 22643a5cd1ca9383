"""From the directory of a run to a checked module: `python -m export --workdir=WORKDIR --output=MODULE`."""

import sys

from cpc_tf.program import main

if __name__ == "__main__":
    sys.exit(main("export"))
