"""What a run derives of what is not given: sizes from the encoder, the rest from the number of labels."""

from __future__ import annotations

from cpc_tf.efficient.config import EfficientConfig
from cpc_tf.efficient.labels import Labels
from cpc_tf.encoders.card import EncoderName, find_card
from cpc_tf.encoders.config import PIXELS
from cpc_tf.settings import derived
from cpc_tf.training.config import UsualTraining, refuse_large_batch

# As long as imagenette/efficient trains on 950 labels; with 80 labels nothing changed after 400 steps.
USUAL = UsualTraining(batch=64, epochs=100, least_steps=400)
# Head of as many labels at least -> blocks and width: the paper's, and that of imagenette/efficient.
HEADS = {10_000: (11, 4096), 0: (2, 512)}
MOST_VIEWS, ALL_VIEWS = 16, 8000  # of each image, and of all: a view on the feature map of 128 px takes 256 KB
PAPERS_SIZES = 256, 224


def from_encoder(config: EfficientConfig) -> tuple[EfficientConfig, str]:
    """Returns the settings with the sizes of images, and a line on those that were not given."""
    name, given = EncoderName.parse(config.classifier.encoder), config.images
    card = find_card(name.module) if name.module else None
    usual, side = (card.geometry.resize, card.geometry.image_size) if card else PAPERS_SIZES
    image_size = given.image_size or min(side, given.resize or side)
    resize = max(image_size, round(image_size * usual / side))
    source = "the encoder's card" if card else "the paper, since --encoder has no card"
    return derived(config, {"resize": resize, "image_size": image_size}, source)


def from_labels(config: EfficientConfig, labels: Labels, replicas: int) -> tuple[EfficientConfig, str]:
    """Returns the settings with batch, length and classifier, and a line on those that were not given.

    Raises ConfigError if a batch is larger than what it is drawn from.
    """
    count = len(labels.chosen if labels.fit is None else labels.fit)
    values = USUAL.settings(count, replicas, config.training.batch_size)
    if not config.classifier.head_width:
        blocks, values["head_width"] = next(head for least, head in HEADS.items() if count >= least)
        if config.classifier.encoder != PIXELS:
            values["head_blocks"] = blocks
    views = min(MOST_VIEWS, ALL_VIEWS // len(labels.chosen))
    values["cached_views"] = views if views > 1 and config.classifier.encoder != PIXELS else 0
    config, told = derived(config, values, f"{len(labels.chosen)} labels")
    views = 1 if config.classifier.encoder == PIXELS else max(1, config.sgd.cached_views)
    refuse_large_batch(config.training, count * views)
    return config, told
