"""Every setting once: default, unit, range and the paper's section beside it. Flags are generated from here."""

import dataclasses

from cpc_tf.settings import ConfigError, Settings, setting

ENCODERS = (
    "resnet161",
    "resnet50",
    "resnet101_v1",
    "resnet50_v2",
    "resnet101_v2",
    "resnet152_v2",
    "resnet200_v2",
    "small",
    "tiny",
)


@dataclasses.dataclass(frozen=True)
class DataConfig(Settings):
    """Where the pictures come from."""

    dataset: str = setting(
        "photos",
        "'photos' (embedded), 'photos/N' for N unlabelled crops, 'folder:PATH' for your own pictures, or the name of a "
        "TensorFlow Datasets builder",
    )
    data_dir: str = setting("", "where TensorFlow Datasets keeps its data; empty: its own default", free_on_resume=True)
    split: str = setting("train", "part of the dataset to learn from (TensorFlow Datasets split syntax)")
    shuffle_window: int = setting(
        16384, "examples shuffled together; folders are always shuffled whole", unit="images", minimum=1
    )

    def check(self):
        if not self.dataset or self.dataset == "folder:":
            raise ConfigError(
                f"--dataset={self.dataset}: name a dataset, e.g. --dataset=photos or --dataset=folder:PATH"
            )


@dataclasses.dataclass(frozen=True)
class GeometryConfig(Settings):
    """Image -> resize -> random crop -> grid of patches. Defaults: appendix A."""

    resize: int = setting(300, "side of the square the image is resized to", unit="px", source="App. A", minimum=1)
    image_size: int = setting(260, "side of the random crop", unit="px", source="App. A", minimum=1)
    patch_size: int = setting(80, "side of a patch", unit="px", source="App. A", minimum=1)
    patch_stride: int = setting(36, "distance between neighbouring patches", unit="px", source="App. A", minimum=1)
    mirror: bool = setting(False, "mirror half of the training images left to right")

    def check(self):
        if self.image_size > self.resize:
            raise ConfigError(
                f"--image_size={self.image_size}: larger than --resize={self.resize}, nothing to crop from"
            )
        if self.patch_size > self.image_size:
            raise ConfigError(f"--patch_size={self.patch_size}: larger than --image_size={self.image_size}")
        left_over = (self.image_size - self.patch_size) % self.patch_stride
        if left_over:
            raise ConfigError(
                f"--patch_stride={self.patch_stride}: the grid does not fit, {left_over} of {self.image_size} px are "
                f"left over; --image_size={self.image_size - left_over} would fit"
            )

    @property
    def grid(self) -> int:
        """Patches per side of the grid."""
        return (self.image_size - self.patch_size) // self.patch_stride + 1


@dataclasses.dataclass(frozen=True)
class AugmentConfig(Settings):
    """What is done to each patch on its own: appendix A steps 1-4, and the earlier policies of figure 3."""

    augment: str = setting(
        "full",
        "'none'; 'v1': CPC v1's jitter and grey; 'colour_drop': jitter and colour dropping; 'full': appendix A",
        choices=("none", "v1", "colour_drop", "full"),
    )
    augment_engine: str = setting(
        "auto",
        "'native': our C++ op; 'reference': TensorFlow, slow; 'auto': native if it can be built",
        choices=("auto", "reference", "native"),
        free_on_resume=True,
    )
    autoaugment_ops: int = setting(2, "AutoAugment primitives per patch", source="App. A step 1", minimum=0)
    autoaugment_shear: float = setting(0.3, "largest shear", source="AutoAugment", minimum=0)
    autoaugment_translate: float = setting(0.45, "largest shift, of the side", source="AutoAugment", minimum=0)
    autoaugment_rotate: float = setting(30, "largest rotation", unit="degrees", source="AutoAugment", minimum=0)
    autoaugment_enhance: float = setting(
        0.9,
        "contrast, colour, brightness and sharpness factors lie in 1 +- this",
        source="AutoAugment",
        minimum=0,
        maximum=1,
    )
    autoaugment_posterize: int = setting(4, "fewest bits kept", unit="bits", source="AutoAugment", minimum=1, maximum=8)
    autoaugment_solarize: float = setting(
        0, "lowest grey level above which a patch may be inverted", source="AutoAugment", minimum=0, maximum=256
    )
    elastic_probability: float = setting(
        0.2, "of an elastic deformation with shear", source="App. A step 2", minimum=0, maximum=1
    )
    elastic_sigma: float = setting(
        1 / 16, "standard deviation of a control point, of the side", source="De Fauw 2018, scaled", minimum=0
    )
    elastic_shear: float = setting(0.1, "largest shear beside the elastic deformation", minimum=0)
    histogram_probability: float = setting(
        0.2, "of a random monotone curve per channel", source="App. A step 2", minimum=0, maximum=1
    )
    histogram_shift: float = setting(0.1, "largest shift of black and of white, of the range", minimum=0, maximum=0.5)
    histogram_slope: float = setting(2, "steepest slope of the curve; the flattest is its inverse", minimum=1)
    distort_probability: float = setting(
        0.8, "of the Inception colour distortion", source="App. A step 3", minimum=0, maximum=1
    )
    distort_brightness: float = setting(32 / 255, "largest shift, of the range", source="Inception", minimum=0)
    distort_saturation: float = setting(0.5, "factor in 1 +- this", source="Inception", minimum=0, maximum=1)
    distort_hue: float = setting(0.2, "largest shift", unit="turns", source="Inception", minimum=0, maximum=0.5)
    distort_contrast: float = setting(0.5, "factor in 1 +- this", source="Inception", minimum=0, maximum=1)
    grey_probability: float = setting(
        0.25, "of grey under 'full'; 'v1' is always grey", source="App. A step 4", minimum=0, maximum=1
    )
    jitter_fraction: float = setting(
        4 / 64,
        "of the side cut off and padded again under 'v1' and 'colour_drop'",
        source="CPC v1",
        minimum=0,
        maximum=0.5,
    )
    drop_probability: float = setting(
        1, "of keeping one channel of three under 'colour_drop'", source="Sec. 4.1", minimum=0, maximum=1
    )


@dataclasses.dataclass(frozen=True)
class EncoderConfig(Settings):
    """The network that turns a patch, or a whole image, into latents."""

    encoder: str = setting("resnet161", "architecture", source="Sec. 4.1", choices=ENCODERS)
    norm: str = setting(
        "layer", "normalization inside the encoder", source="Sec. 4.1", choices=("layer", "channel", "batch", "none")
    )
    block_order: str = setting(
        "pre", "'pre': norm and ReLU before each convolution (ResNet v2); 'post': after it", choices=("pre", "post")
    )
    output_stack: int = setting(0, "which stack of blocks is the output, from 1; 0: the last", minimum=0, maximum=4)
    recompute: bool = setting(False, "recompute activations in the backward pass: less memory, a third more time")


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig(Settings):
    """The CPC listing of appendix A."""

    directions: int = setting(
        4, "1: down; 2: down and up; 4: down, up, right and left", source="Sec. 4.1", choices=(1, 2, 4)
    )
    steps_to_ignore: int = setting(
        2, "rows skipped, since their patches overlap the context", source="App. A", minimum=0
    )
    steps_to_predict: int = setting(3, "last predicted row offset", source="App. A", minimum=1)
    target_dim: int = setting(64, "dimension of targets and predictions", source="App. A", minimum=1)
    emb_scale: float = setting(0.1, "scale of the predictions", source="App. A", above=0)
    context_blocks: int = setting(5, "residual blocks of the context network", source="App. A", minimum=1)
    context_dim: int = setting(256, "width inside a block of the context network", source="App. A", minimum=1)
    negatives: str = setting(
        "replica", "negatives from the images of a replica, or gathered from all", choices=("replica", "gathered")
    )
    reduction: str = setting("mean", "over the predictions of one offset and direction", choices=("mean", "sum"))

    def check(self):
        if self.steps_to_predict <= self.steps_to_ignore:
            raise ConfigError(
                f"--steps_to_predict={self.steps_to_predict}: nothing left to predict after "
                f"--steps_to_ignore={self.steps_to_ignore}; use {self.steps_to_ignore + 1} or more"
            )


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(Settings):
    """Adam with Polyak averaging, appendix A."""

    learning_rate: float = setting(4e-4, "peak learning rate", source="App. A", above=0)
    schedule: str = setting("constant", "learning rate after the warm-up", choices=("constant", "cosine"))
    warmup_steps: int = setting(0, "linear warm-up", unit="steps", minimum=0)
    beta1: float = setting(0.8, "Adam's beta 1", source="App. A", minimum=0, maximum=1)
    beta2: float = setting(0.999, "Adam's beta 2", source="App. A", minimum=0, maximum=1)
    epsilon: float = setting(1e-8, "Adam's epsilon", source="App. A", above=0)
    clip_norm: float = setting(0.01, "largest global norm of the gradient", source="App. A", above=0)
    average_decay: float = setting(
        0.9999, "Polyak averaging; ramps up as (1 + step) / (10 + step)", source="App. A", minimum=0, maximum=1
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Settings):
    """How long, on what, and how often to look."""

    batch_size: int = setting(512, "images per step over all replicas", unit="images", source="App. A", minimum=1)
    train_steps: int = setting(
        0, "length of training; 0: take --train_epochs", unit="steps", minimum=0, free_on_resume=True
    )
    train_epochs: float = setting(
        200, "length of training", unit="passes over the data", source="App. A", minimum=0, free_on_resume=True
    )
    seed: int = setting(0, "seed of weights, order, crops and augmentation", minimum=0)
    strategy: str = setting(
        "auto",
        "tf.distribute strategy",
        choices=("auto", "single", "mirrored", "multiworker", "tpu"),
        free_on_resume=True,
    )
    tpu: str = setting("", "name or address of the TPU; empty: this machine's", free_on_resume=True)
    deterministic: bool = setting(True, "ask TensorFlow for reproducible kernels", free_on_resume=True)
    steps_per_loop: int = setting(
        50, "steps run on the device between two looks", unit="steps", minimum=1, free_on_resume=True
    )
    checkpoint_every: int = setting(1000, "steps between checkpoints", unit="steps", minimum=1, free_on_resume=True)
    keep_checkpoints: int = setting(3, "how many of the latest checkpoints stay", minimum=2, free_on_resume=True)

    def check(self):
        if not self.train_steps and not self.train_epochs:
            raise ConfigError("--train_steps=0: give --train_steps or --train_epochs, both are 0")


@dataclasses.dataclass(frozen=True)
class NumericsConfig(Settings):
    """How the numbers are computed."""

    precision: str = setting("float32", "of activations and convolutions", choices=("float32", "bfloat16"))
    xla: str = setting(
        "auto", "compile the gradient with XLA; auto: on a GPU", choices=("auto", "on", "off"), free_on_resume=True
    )


@dataclasses.dataclass(frozen=True)
class MonitorConfig(Settings):
    """What is looked at on the way."""

    probe_every: int = setting(
        0,
        "steps between nearest-neighbour probes where labels exist; 0: none",
        unit="steps",
        minimum=0,
        free_on_resume=True,
    )
    probe_split: str = setting(
        "",
        "labelled split that the nearest-neighbour probe looks at; empty: --split",
        free_on_resume=True,
    )


@dataclasses.dataclass(frozen=True)
class PretrainConfig(Settings):
    """Everything `python -m cpc_tf.pretrain` can be told."""

    workdir: str = setting("", "directory of the run; a run that stands there is resumed", free_on_resume=True)
    data: DataConfig = DataConfig()
    geometry: GeometryConfig = GeometryConfig()
    augment: AugmentConfig = AugmentConfig()
    encoder: EncoderConfig = EncoderConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()
    numerics: NumericsConfig = NumericsConfig()
    monitor: MonitorConfig = MonitorConfig()

    def check(self):
        if self.geometry.grid <= self.objective.steps_to_predict:
            raise ConfigError(
                f"--steps_to_predict={self.objective.steps_to_predict}: the grid has only {self.geometry.grid} rows; "
                "use a smaller --patch_stride or fewer steps"
            )


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


@dataclasses.dataclass(frozen=True)
class ExportConfig(Settings):
    """Everything `python -m export` can be told."""

    workdir: str = setting("", "directory of the pre-training run")
    output: str = setting("", "directory to write the TF-Hub module to; must not exist yet")
    weights: str = setting(
        "averaged", "Polyak averages or the weights themselves", source="App. A", choices=("averaged", "raw")
    )
    step: int = setting(0, "which checkpoint; 0: the newest whole one", unit="steps", minimum=0)
