"""What the registry of tasks knows of `cpc-tf efficient`."""

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.report import report
from cpc_tf.efficient.run import efficient
from cpc_tf.registry import Task
from cpc_tf.results import several

TASK = Task(
    name="efficient",
    config=EfficientConfig,
    run=efficient,
    required={
        "num_train_labels": "a positive integer",
        "label_fraction": "a positive number",
        "top1": "a fraction from 0 to 1",
    },
    optional={
        "top5": "a fraction from 0 to 1",
        "propagation": "a text",
        "phases": "records by name",
        "search": "a list of records",
    },
    report=report,
    required_of_several={
        "num_train_labels": "a positive integer",
        "label_fraction": "a positive number",
        **several.REQUIRED,
    },
)
