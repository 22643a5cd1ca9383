"""The smallest pre-training run: two steps in one direction on photographs of 24 px, a grid
of 5x5.
"""

from cpc_tf.core.settings import replace
from cpc_tf.pretrain.config import PretrainConfig

TINY = replace(
    PretrainConfig(),
    dataset="photos/40",
    split="unlabelled",
    resize=24,
    image_size=24,
    patch_size=8,
    patch_stride=4,
    encoder="small",
    context_blocks=1,
    context_dim=8,
    directions=1,
    batch_size=4,
    train_steps=2,
    steps_per_loop=1,
)
