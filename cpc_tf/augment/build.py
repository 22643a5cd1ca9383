"""Builds the native engine with the system's compiler: `python -m cpc_tf.augment.build`."""

from cpc_tf.augment.recipe import LIBRARY
from cpc_tf.core.native import BuildError

if __name__ == "__main__":
    try:
        print(LIBRARY.build())
    except BuildError as failure:
        raise SystemExit(f"error: {failure}") from None
