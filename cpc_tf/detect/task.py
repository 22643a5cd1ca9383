"""`cpc-tf detect` as a task."""

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.report import TESTED, report
from cpc_tf.detect.run import detect
from cpc_tf.registry import Task

TASK = Task(
    name="detect",
    config=DetectConfig,
    run=detect,
    required={"map11": "a fraction from 0 to 1"},
    optional={"map_all": "a fraction from 0 to 1", **dict.fromkeys(("images", *TESTED), "a positive integer")},
    report=report,
)
