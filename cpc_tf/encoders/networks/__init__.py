"""The registry of encoders: each module of this package is a family, and says under which names its networks go."""

from cpc_tf.encoders.network import Network
from cpc_tf.registry import modules

# Name -> class of the network. The choices of --encoder and --backbone are the names.
NETWORKS: dict[str, type[Network]] = {}
for _family in modules(__name__):
    NETWORKS.update(_family.NETWORKS)
