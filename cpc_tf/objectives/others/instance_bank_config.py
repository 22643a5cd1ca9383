"""Settings of --objective=instance_bank."""

from __future__ import annotations

import dataclasses

from cpc_tf.core.settings import LARGEST, count, fraction, rate, setting, width
from cpc_tf.objectives.config import ObjectiveSettings


@dataclasses.dataclass(frozen=True)
class InstanceBankConfig(ObjectiveSettings):
    """Instance discrimination with a memory bank."""

    MODEL = "cpc_tf.objectives.others.instance_bank:InstanceBank"
    TITLE = "Instance discrimination, memory bank"
    PATCHES = False

    instance_bank_dim: int = width(
        128, "Dimension of the vectors of the bank", source="Wu et al. 2018"
    )
    instance_bank_temperature: float = rate(
        0.07, "Divisor of cosine similarities to the bank", source="Wu et al. 2018"
    )
    instance_bank_negatives: int = count(
        4096,
        "Negatives: vectors of the bank that are drawn for each image; 0: all (full softmax)",
        source="Wu et al. 2018",
        minimum=0,
    )
    instance_bank_momentum: float = fraction(
        0.5, "Weight of a vector in the bank when its image is seen again"
    )
    instance_bank_proximal: float = setting(
        1.0,
        "Weight of the squared distance to an image's vector in the bank",
        minimum=0,
        maximum=LARGEST,
    )
