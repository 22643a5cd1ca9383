"""What the registry of tasks knows of `cpc-tf efficient`."""

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.run import efficient
from cpc_tf.registry import Task

TASK = Task(name="efficient", config=EfficientConfig, run=efficient)
