"""The entry of `cpc-tf pretrain` in the registry of tasks."""

from cpc_tf.pretrain.config import PretrainConfig
from cpc_tf.pretrain.run import pretrain
from cpc_tf.registry import Task

TASK = Task(name="pretrain", config=PretrainConfig, run=pretrain)
