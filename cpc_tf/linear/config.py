"""Settings of the linear protocol."""

import dataclasses

from cpc_tf.augment.config import AugmentConfig
from cpc_tf.data.config import DataConfig, GeometryConfig
from cpc_tf.settings import ConfigError, Settings, setting
from cpc_tf.training.config import TrainingConfig


@dataclasses.dataclass(frozen=True)
class ProbeConfig(Settings):
    """Appendix B: the frozen encoder's patch grid, batch norm, 1x1 convolution, mean of the logits."""

    encoder: str = setting("", "TF-Hub module (directory or handle); 'random:MODULE': its untrained twin; 'pixels'")
    geometry_from: str = setting(
        "encoder", "resize, crop and patches: from the module's encoder.json or the flags", choices=("encoder", "flags")
    )
    test_split: str = setting("test", "part of the dataset to test on")
    learning_rate: float = setting(5e-4, "Adam's rate", source="App. B", above=0)
    cached_views: int = setting(
        0, "encode this many augmented views of each image once and train on those; 0: encode at each step", minimum=0
    )
    baselines: bool = setting(True, "classify from the module's untrained twin and from raw pixels, too")

    def check(self):
        if self.encoder == "pixels" and self.geometry_from == "encoder":
            raise ConfigError("--encoder=pixels: has no geometry of its own; add --geometry_from=flags")


@dataclasses.dataclass(frozen=True)
class LinearConfig(Settings):
    """Everything `python -m cpc_tf.linear` can be told."""

    workdir: str = setting("", "directory of the run; a run that stands there is resumed", free_on_resume=True)
    data: DataConfig = DataConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    probe: ProbeConfig = ProbeConfig()
    training: TrainingConfig = TrainingConfig()
