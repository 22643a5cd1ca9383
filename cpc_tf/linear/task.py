"""What the registry of tasks knows of `cpc-tf linear`."""

from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.run import linear
from cpc_tf.registry import Task

TASK = Task(name="linear", config=LinearConfig, run=linear)
