"""SavedModels may come from strangers: one whose graph reads or writes files is refused before
anything of it runs.
"""

from __future__ import annotations

import os
import re

import tensorflow as tf
from absl import logging
from tensorflow.python.saved_model import loader_impl  # reads all forms of the file

from cpc_tf.core.settings import ConfigError
from cpc_tf.core.texts import listed

TRUST = "CPC_TF_TRUST"  # environment variable; 1: load them all the same

# Names of operations that read or write files, talk to other machines or call Python. No model of
# images needs them. Those that save and restore variables or fill lookup tables are in ordinary
# SavedModels.
_ACTS = re.compile(
    "ReadFile|WriteFile|MatchingFiles|FileSystem|ImmutableConst|PyFunc|Rpc|DataService|Debug|SummaryWriter|SummaryFile"
    "|SummaryDb|Reader|Record|TextLine|CSVDataset|LMDB|Sql|CacheDataset|Snapshot.|SaveDataset|LoadDataset"
    "|RegisterDataset|Remap"
)


def check(directory: str, flag: str) -> None:
    """Raises ConfigError if the graph of a SavedModel can do more than compute.

    It is no wall: what saves variables can be made to write elsewhere. SECURITY.md says what to
    load.

    Args:
      directory: of the SavedModel.
      flag: that names it, with its value, for the message.
    """
    acting = set()
    for graph in loader_impl.parse_saved_model(directory).meta_graphs:
        functions = [function.node_def for function in graph.graph_def.library.function]
        for nodes in (graph.graph_def.node, *functions):
            acting |= {node.op for node in nodes if _ACTS.search(node.op) or _prints_to_file(node)}
    if not acting:
        return
    why = f"{flag}: its graph can read or write files or run other code ({listed(sorted(acting))})"
    if os.environ.get(TRUST) != "1":
        raise ConfigError(
            f"{why}, which no model of images needs; if you trust its author, set {TRUST}=1"
        )
    logging.warning("%s; %s=1 allows it", why, TRUST)


def _prints_to_file(node: tf.compat.v1.NodeDef) -> bool:
    return node.op == "PrintV2" and node.attr["output_stream"].s.startswith(b"file:")
