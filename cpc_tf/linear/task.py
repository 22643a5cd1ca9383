"""What the registry of tasks knows of `cpc-tf linear`."""

from cpc_tf.linear.config import LinearConfig
from cpc_tf.linear.report import report
from cpc_tf.linear.run import linear
from cpc_tf.registry import Task
from cpc_tf.results import several

TASK = Task(
    name="linear",
    config=LinearConfig,
    run=linear,
    required={"num_classes": "a positive integer", "top1": "a fraction from 0 to 1"},
    optional={"top5": "a fraction from 0 to 1", "phases": "records by name"},
    report=report,
    required_of_several={"num_classes": "a positive integer", **several.REQUIRED},
)
