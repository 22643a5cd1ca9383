"""`cpc-tf detect` as a task."""

from cpc_tf.detect.config import DetectConfig
from cpc_tf.detect.run import detect
from cpc_tf.registry import Task

TASK = Task(name="detect", config=DetectConfig, run=detect)
