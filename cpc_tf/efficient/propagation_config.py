"""Settings of label propagation: what a classifier learns from images without labels."""

import dataclasses
import functools

from cpc_tf.core.settings import LARGEST, ConfigError, Settings, count, fraction, rate, setting

# --propagation without a method, and with one that trains twice.
NONE = "none"
SELF_TRAINING = "self_training"
weight = functools.partial(setting, minimum=0, maximum=LARGEST)  # of a loss


@dataclasses.dataclass(frozen=True)
class PropagationConfig(Settings):
    """The method, and the settings of every method.

    The paper's table 3 quotes the figures of Zhai et al. 2019 and Xie et al. 2019, whose values the
    presets hold. The defaults are of the papers that these methods come from, and of small images.
    """

    propagation: str = setting(
        NONE,
        "What the classifier learns from images without labels while the whole network is trained."
        " 'pseudo_labels': the class that it predicts (Lee 2013); 'vat': to predict the same for a"
        " disturbed image, with confidence (Miyato et al. 2018); 'uda': to predict the same for an"
        " augmented image (Xie et al. 2019). 'self_training': all of it is trained twice, on the"
        " labels, then anew on the classes that this first classifier predicts (Zhai et al. 2019)",
        choices=(NONE, "pseudo_labels", "vat", "uda", SELF_TRAINING),
    )
    teacher: str = setting(
        "",
        "Settings of the first of the two trainings of --propagation=self_training, where they are"
        " not those of the second, as NAME=VALUE,...",
    )
    unlabelled_ratio: int = count(
        1,
        "Images without labels in a step for each one with a label; Xie et al. 2019 have 30 on"
        " ImageNet",
        maximum=1024,
    )
    # He counts epochs: 100 and 600.
    pseudo_weight: float = weight(3.0, "Final weight of pseudo-labels", source="Lee 2013")
    pseudo_begin: float = fraction(
        0.1,
        "Part of the training after which the weight of pseudo-labels rises",
        source="Lee 2013",
        detail=True,
    )
    pseudo_end: float = fraction(
        0.6,
        "Part of the training after which it is --pseudo_weight",
        source="Lee 2013",
        detail=True,
    )
    vat_weight: float = weight(1.0, "Weight of VAT's divergence", source="Miyato et al. 2018")
    entropy_weight: float = weight(
        1.0, "Weight of the entropy beside it", source="Miyato et al. 2018"
    )
    # Their 8 for whitened images of 32 px is 0.14 for a standard deviation of 1; images here have
    # about 0.25.
    vat_radius: float = rate(
        0.035,
        "VAT's disturbance of an image: root mean square over its values, which have a range of 1",
    )
    # Theirs, 1e-6 as a norm, is lost in float32's rounding.
    vat_probe: float = rate(
        0.01, "The disturbance that the direction of VAT's is found with, likewise", detail=True
    )
    uda_weight: float = weight(
        1.0, "Weight of UDA's divergence", source="Xie et al. 2019: 1 with all labels, 20 with 10 %"
    )
    uda_temperature: float = rate(
        0.4, "Divisor of the logits that UDA learns", source="Xie et al. 2019"
    )
    uda_confidence: float = fraction(
        0.5,
        "Probability of a class from which on UDA learns a prediction",
        source="Xie et al. 2019",
    )

    def check(self):
        if self.pseudo_end <= self.pseudo_begin:
            raise ConfigError(
                "pseudo_end", self.pseudo_end, f"must be above --pseudo_begin={self.pseudo_begin}"
            )
        if self.teacher and self.propagation != SELF_TRAINING:
            raise ConfigError("teacher", self.teacher, f"goes with --propagation={SELF_TRAINING}")
