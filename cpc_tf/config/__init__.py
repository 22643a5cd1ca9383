"""Every setting once: default, unit, range and the paper's section beside it. Flags are generated from here."""

from cpc_tf.config.detection import (
    AnchorConfig,
    BackboneConfig,
    CanvasConfig,
    DetectConfig,
    DetectorConfig,
    DetectorSgdConfig,
    HeadConfig,
    InferenceConfig,
    RpnConfig,
    ScoringConfig,
)
from cpc_tf.config.evaluation import (
    ClassifierConfig,
    EfficientConfig,
    LabelsConfig,
    LinearConfig,
    ProbeConfig,
    SearchConfig,
    SgdConfig,
)
from cpc_tf.config.images import AugmentConfig, DataConfig, GeometryConfig, ImageConfig
from cpc_tf.config.pretraining import (
    ENCODERS,
    EncoderConfig,
    ExportConfig,
    MonitorConfig,
    ObjectiveConfig,
    OptimizerConfig,
    PretrainConfig,
)
from cpc_tf.config.training import NumericsConfig, TrainingConfig

__all__ = [
    "ENCODERS",
    "AnchorConfig",
    "AugmentConfig",
    "BackboneConfig",
    "CanvasConfig",
    "ClassifierConfig",
    "DataConfig",
    "DetectConfig",
    "DetectorConfig",
    "DetectorSgdConfig",
    "EfficientConfig",
    "EncoderConfig",
    "ExportConfig",
    "GeometryConfig",
    "HeadConfig",
    "ImageConfig",
    "InferenceConfig",
    "LabelsConfig",
    "LinearConfig",
    "MonitorConfig",
    "NumericsConfig",
    "ObjectiveConfig",
    "OptimizerConfig",
    "PretrainConfig",
    "ProbeConfig",
    "RpnConfig",
    "ScoringConfig",
    "SearchConfig",
    "SgdConfig",
    "TrainingConfig",
]
