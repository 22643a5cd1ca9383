"""Faster R-CNN (Ren et al. 2015) on any backbone, with static shapes throughout."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.detect.boxes import anchor_grid
from cpc_tf.detect.config import DetectorConfig
from cpc_tf.detect.networks import RegionHead, RegionProposalNetwork
from cpc_tf.detect.suppression import Detections, detect, inside, propose
from cpc_tf.detect.targets import anchor_samples, make_objects, region_losses, region_samples, rpn_losses
from cpc_tf.encoders.norm import make_norm
from cpc_tf.keras import keras

# Side of the image that tells stride and channels of a backbone.
PROBE = 128


class FasterRCNN(keras.Model):
    """Backbone, region proposal network, and a head for each region.

    All variables exist after construction: `training_losses` and `call` can be compiled at once.

    Args:
      backbone: images [B, H, W, 3], float32 in [0, 1] -> feature map [B, H/stride, W/stride, C]. A Keras layer, so that
        its variables are found; it is given `training`.
      num_classes: without the background.
      config: every number of the recipe.
      precision: of the layers after the backbone, 'float32' or 'bfloat16'; parameters, boxes, logits and losses are
        float32.

    Raises:
      ValueError: if the backbone's output is not a feature map.
    """

    def __init__(
        self,
        backbone: Callable[..., tf.Tensor],
        num_classes: int,
        config: DetectorConfig | None = None,
        precision: str = "float32",
    ):
        dtype = "mixed_bfloat16" if precision == "bfloat16" else precision
        super().__init__(name="faster_rcnn")
        self.config = config or DetectorConfig()
        self.backbone, self.num_classes = backbone, num_classes
        self.stride, self.channels = _probe(backbone)
        sizes, ratios = (self.config.anchors.numbers(f"anchor_{name}") for name in ("sizes", "ratios"))
        self._anchors = lambda rows, columns: anchor_grid(rows, columns, self.stride, sizes, ratios)
        self.norm = make_norm(self.config.backbone.backbone_norm, "float32", "backbone_norm")
        self.rpn = RegionProposalNetwork(self.config.rpn.rpn_width, len(sizes) * len(ratios), dtype)
        self.head = RegionHead(num_classes, self.channels, self.config.head, dtype)
        features = self.norm(tf.zeros([1, 4, 4, self.channels]))
        self.rpn(features)
        self.head(features, tf.zeros([1, 1, 4]), self.stride)

    @property
    def encoder_variables(self) -> list[tf.Variable]:
        """The backbone's trainable variables, which have a learning rate of their own."""
        return list(getattr(self.backbone, "trainable_variables", ()))

    @property
    def detector_variables(self) -> list[tf.Variable]:
        """All other trainable variables."""
        return [*self.norm.trainable_variables, *self.rpn.trainable_variables, *self.head.trainable_variables]

    def training_losses(
        self,
        images: tf.Tensor,
        sizes: tf.Tensor,
        boxes: tf.Tensor,
        labels: tf.Tensor,
        seed: tf.Tensor,
        difficult: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """The losses of a batch.

        Args:
          images: [B, H, W, 3], float32 in [0, 1]; H and W are static and multiples of the stride. An image is in the
            top left corner, with padding below and to the right of it.
          sizes: heights and widths of the images without padding, [B, 2].
          boxes: [B, M, 4], [y1, x1, y2, x2] in pixels, within the images; M at least 1.
          labels: [B, M], classes from 0; -1 for padding.
          seed: int32 [2], a new one at each step: determines which anchors and regions are sampled.
          difficult: [B, M], bool; see `HeadConfig.learn_difficult`.

        Returns:
          'rpn_class', 'rpn_box', 'region_class', 'region_box' and their sum 'loss': float32 scalars.
        """
        rpn = self.config.rpn
        objects = make_objects(boxes, labels, difficult, self.config.head.learn_difficult)
        features, anchors = self._features(images, training=True)
        objectness, deltas = self.rpn(features)
        # XLA reads negative seeds differently.
        seed = tf.bitwise.bitwise_and(seed, tf.int32.max)
        rpn_seed, region_seed = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        samples = anchor_samples(anchors, inside(anchors, sizes), objects, rpn, rpn_seed)
        losses = rpn_losses(objectness, deltas, samples)
        proposals, valid = propose(
            objectness, deltas, anchors, sizes, rpn.rpn_train_candidates, rpn.rpn_train_proposals, rpn.rpn_nms_iou
        )
        regions, samples = region_samples(proposals, valid, objects, self.config.head, region_seed)
        losses.update(region_losses(*self.head(features, regions, self.stride, training=True), samples))
        return {**losses, "loss": tf.add_n(list(losses.values()))}

    def call(
        self, images: tf.Tensor, sizes: tf.Tensor, training: bool = False, least_score: tf.Tensor | None = None
    ) -> Detections:
        """Finds objects.

        Args:
          images: [B, H, W, 3], see `training_losses`.
          sizes: their heights and widths, [B, 2].
          training: affects only batch norm.
          least_score: overrides `InferenceConfig.detection_score`.
        """
        rpn = self.config.rpn
        features, anchors = self._features(images, training)
        objectness, deltas = self.rpn(features)
        proposals, valid = propose(
            objectness, deltas, anchors, sizes, rpn.rpn_test_candidates, rpn.rpn_test_proposals, rpn.rpn_nms_iou
        )
        logits, deltas = self.head(features, proposals, self.stride, training=training)
        return detect(logits, deltas, proposals, valid, sizes, self.config.inference, least_score)

    def _features(self, images: tf.Tensor, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Feature map [B, H/stride, W/stride, C] and its anchors [N, 4]."""
        height, width = images.shape[1:3]
        if height is None or width is None or height % self.stride or width % self.stride:
            raise ValueError(f"images of {height}x{width} px: both must be multiples of the stride, {self.stride}")
        rows, columns = height // self.stride, width // self.stride
        # A TF-Hub module does not know the size of its output until it runs.
        features = tf.ensure_shape(self.backbone(images, training=training), [None, rows, columns, self.channels])
        return self.norm(features, training=training), tf.constant(self._anchors(rows, columns))


def _probe(backbone: Callable[..., tf.Tensor]) -> tuple[int, int]:
    """Stride and channels of a backbone, from what it makes of a small image."""
    strategy = tf.distribute.get_strategy()
    # In the scope of a strategy a loaded module runs on replicas alone.
    probe = tf.function(lambda: backbone(tf.zeros([1, PROBE, PROBE, 3]), training=False), autograph=False)
    features = strategy.experimental_local_results(strategy.run(probe))[0]
    if features.shape.rank != 4 or features.shape[1] != features.shape[2] or PROBE % features.shape[1]:
        raise ValueError(
            f"the backbone turns [1, {PROBE}, {PROBE}, 3] into {features.shape.as_list()}, which is not a feature map"
        )
    return PROBE // features.shape[1], features.shape[-1]
