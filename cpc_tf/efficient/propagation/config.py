"""Settings of label propagation."""

from __future__ import annotations

import dataclasses

from cpc_tf.settings import ConfigError, Settings, constant, setting

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
    unlabelled_ratio: int = constant(
        1,
        "Pictures without labels in a step for each one with a label. Ours; Xie et al. 2019 have 30 on ImageNet",
        minimum=1,
        maximum=1024,
    )

    pseudo_weight: float = constant(3.0, "Final weight of pseudo-labels", source="Lee 2013", minimum=0, maximum=1000)
    # Lee 2013 counts epochs: 100 and 600.
    pseudo_begin: float = constant(0.1, "Part of the training after which their weight rises", minimum=0, maximum=1)
    pseudo_end: float = constant(0.6, "Part of the training after which it is final", minimum=0, maximum=1)

    vat_weight: float = constant(1.0, "Weight of the divergence", source="Miyato et al. 2018", minimum=0, maximum=1000)
    entropy_weight: float = constant(1.0, "Weight of the entropy", source="Miyato et al. 2018", minimum=0, maximum=1000)
    # As root mean squares over the values of a picture, which have a range of 1, whatever its size. Their 8 for
    # whitened pictures of 32 px is 0.14 for a standard deviation of 1; pictures here have about 0.25.
    vat_radius: float = constant(0.035, "Size of the disturbance of a picture", above=0, maximum=1)
    # Theirs, 1e-6 as a norm, is lost in the rounding of float32.
    vat_probe: float = constant(0.01, "Size of the disturbance that the direction is found with", above=0, maximum=1)

    uda_weight: float = constant(1.0, "Weight of consistency", source="Xie et al. 2019", minimum=0, maximum=1000)
    uda_temperature: float = constant(
        0.4, "Divisor of the logits that are learned", source="Xie et al. 2019", above=0, maximum=100
    )
    uda_confidence: float = constant(
        0.5, "Probability from which on a prediction is learned", source="Xie et al. 2019", minimum=0, maximum=1
    )

    def check(self):
        if self.pseudo_begin >= self.pseudo_end:
            raise ConfigError(f"pseudo_begin={self.pseudo_begin}: must be below pseudo_end={self.pseudo_end}")
