"""Two logical CPUs, so that replicas can be tested anywhere; set before TensorFlow starts its devices."""

import cpc_tf  # noqa: F401, quietens TensorFlow, so it comes first
import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()],
)
