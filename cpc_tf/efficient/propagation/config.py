"""Settings of label propagation."""

from __future__ import annotations

import dataclasses

from cpc_tf.settings import Settings, count, setting

NONE = "none"


@dataclasses.dataclass(frozen=True)
class PropagationConfig(Settings):
    """What a classifier learns from pictures without labels beside those with labels.

    The paper's table 3 quotes the figures of Zhai et al. 2019 and Xie et al. 2019; what they do not say is ours.
    """

    propagation: str = setting(
        NONE,
        "What pictures without labels teach the classifier while the whole network is trained. 'pseudo_labels': the "
        "class that it predicts (Lee 2013); 'vat': the same prediction for a disturbed picture, and a certain one "
        "(Miyato et al. 2018); 'uda': the same prediction for an augmented picture (Xie et al. 2019)",
        choices=(NONE, "pseudo_labels", "vat", "uda"),
    )
    unlabelled_ratio: int = count(
        1,
        "Pictures without labels in a step for each one with a label. Ours; Xie et al. 2019 have 30 on ImageNet",
        maximum=1024,
    )

    # Lee 2013: the final weight of pseudo-labels; the parts of the training after which it rises and is final. He
    # counts epochs: 100 and 600.
    pseudo_weight, pseudo_begin, pseudo_end = 3.0, 0.1, 0.6

    vat_weight, entropy_weight = 1.0, 1.0  # of the divergence and of the entropy (Miyato et al. 2018)
    # Size of the disturbance of a picture: as root mean squares over the values of a picture, which have a range of 1,
    # whatever its size. Their 8 for whitened pictures of 32 px is 0.14 for a standard deviation of 1; pictures here
    # have about 0.25.
    vat_radius = 0.035
    vat_probe = 0.01  # the one that the direction is found with; theirs, 1e-6 as a norm, is lost in float32's rounding

    # Xie et al. 2019: weight of consistency, divisor of the logits that are learned, probability from which on a
    # prediction is learned.
    uda_weight, uda_temperature, uda_confidence = 1.0, 0.4, 0.5
