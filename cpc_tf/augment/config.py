"""Settings of the patch augmentation."""

import dataclasses

from cpc_tf.settings import Settings, setting


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
