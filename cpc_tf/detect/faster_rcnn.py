"""Faster R-CNN (Ren et al. 2015) on any backbone, with static shapes throughout."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from cpc_tf.core.keras import keras, policy
from cpc_tf.detect.boxes import Detections, anchor_grid, detect, inside, propose
from cpc_tf.detect.config import DetectorConfig, HeadConfig
from cpc_tf.detect.targets import (
    Draws,
    anchor_samples,
    make_objects,
    region_losses,
    region_samples,
    rpn_losses,
)
from cpc_tf.encoders.layers import has_batch_norm, make_norm
from cpc_tf.encoders.networks.resnet import Bottleneck, conv

PROBE = 128  # side of the image from which stride and channels of a backbone are read
# (a map [N, h, w, C], training) -> a map [N, h', w', D], float32
Rest = Callable[[tf.Tensor, bool], tf.Tensor]


class RegionProposalNetwork(keras.layers.Layer):
    """A 3x3 convolution, then a logit and a code for each of the `anchors` of a cell; the outputs
    are float32.
    """

    def __init__(self, width: int, anchors: int, dtype: str = "float32", name: str = "rpn"):
        super().__init__(dtype=dtype, name=name)

        def layer(channels: int, kernel: int, dtype: str, name: str, activation: str | None = None):
            kwargs = {
                "padding": "same",
                "kernel_initializer": _normal(0.01),
                "activation": activation,
            }
            return keras.layers.Conv2D(channels, kernel, dtype=dtype, name=name, **kwargs)

        self.conv = layer(width, 3, dtype, "conv", "relu")
        self.objectness = layer(anchors, 1, "float32", "objectness")
        self.deltas = layer(4 * anchors, 1, "float32", "deltas")

    def call(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Features [B, H, W, C] -> logits [B, N] and codes [B, N, 4], in the order of
        `anchor_grid`.
        """
        x = tf.cast(self.conv(features), tf.float32)
        count = x.shape[1] * x.shape[2] * self.objectness.filters  # N = H*W*A
        return tf.reshape(self.objectness(x), [-1, count]), tf.reshape(
            self.deltas(x), [-1, count, 4]
        )


class RegionHead(keras.layers.Layer):
    """ROIAlign, a small network, then class logits and a box per class.

    Args:
      num_classes: without the background.
      channels: of the features.
      dtype: Keras policy of the network; the outputs are float32.
      rest: for --region_head=encoder, see `FasterRCNN`; its variables are not the head's.
    """

    def __init__(
        self,
        num_classes: int,
        channels: int,
        config: HeadConfig,
        dtype: str = "float32",
        rest: Rest | None = None,
        name: str = "head",
    ):
        super().__init__(dtype=dtype, name=name)
        self.config = config
        self.num_classes = num_classes
        self._rest = rest
        wide = not rest and config.region_reduce and channels > config.region_reduce
        self.reduce = conv(config.region_reduce, 1, dtype=dtype, name="reduce") if wide else None
        self.residual = config.region_head == "residual"
        make = self._block if self.residual else self._linear
        channels = config.region_reduce if wide else channels
        self.layers = (
            [] if rest else [make(index, channels, dtype) for index in range(config.region_blocks)]
        )
        self.norm = make_norm(config.region_norm, dtype, "norm") if self.residual else None
        dense = keras.layers.Dense
        self.classes = dense(
            num_classes + 1, kernel_initializer=_normal(0.01), dtype="float32", name="classes"
        )
        self.deltas = dense(
            num_classes * 4, kernel_initializer=_normal(0.001), dtype="float32", name="deltas"
        )

    def _block(self, index: int, channels: int, dtype: str) -> keras.layers.Layer:
        stride = self.config.region_stride if index == 0 else 1
        return Bottleneck(
            self.config.region_bottleneck,
            self.config.region_width,
            stride=stride,
            project=index == 0 and (stride > 1 or channels != self.config.region_width),
            norm=self.config.region_norm,
            order="pre",
            dtype=dtype,
            name=f"block{index + 1}",
        )

    def _linear(self, index: int, channels: int, dtype: str) -> keras.layers.Layer:
        kwargs = {
            "kernel_initializer": keras.initializers.HeNormal(),
            "dtype": dtype,
            "name": f"linear{index + 1}",
        }
        return keras.layers.Dense(self.config.region_width, "relu", **kwargs)

    def call(
        self, features: tf.Tensor, boxes: tf.Tensor, stride: float, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Classifies boxes [B, K, 4] and corrects them.

        Args:
          stride: pixels per cell of the features [B, H, W, C].
          training: affects only batch norm.

        Returns:
          Logits [B, K, num_classes + 1], the background last, and codes [B, K, num_classes, 4].
        """
        config = self.config
        count = boxes.shape[1]
        features = self.reduce(features) if self.reduce else tf.cast(features, self.compute_dtype)
        x = roi_align(
            features, boxes, stride, config.region_pool, config.region_points, config.region_chunk
        )
        x = tf.reshape(x, [-1, *x.shape[2:]])  # [B*K, P, P, C]
        if self._rest:
            x = tf.reduce_mean(self._rest(x, training), [1, 2])  # [B*K, D]
        elif self.residual:
            for block in self.layers:
                x = block(x, training=training)
            x = tf.nn.relu(self.norm(x, training=training))
            x = tf.reduce_mean(tf.cast(x, tf.float32), [1, 2])  # [B*K, D]
        else:
            x = tf.reshape(x, [-1, x.shape[1] * x.shape[2] * x.shape[3]])  # [B*K, P*P*C]
            for layer in self.layers:
                x = layer(x)
            x = tf.cast(x, tf.float32)
        logits = tf.reshape(self.classes(x), [-1, count, self.num_classes + 1])
        return logits, tf.reshape(self.deltas(x), [-1, count, self.num_classes, 4])


class FasterRCNN(keras.Model):
    """Backbone, region proposal network, and a head for each region.

    All variables exist after construction: `training_losses` and `call` can be compiled at once.

    Args:
      backbone: a Keras layer, images float32 [B, H, W, 3] in [0, 1] -> feature map [B, H/stride,
        W/stride, C].
      num_classes: without the background.
      precision: of the layers after the backbone, as `Network` has it; parameters, boxes, logits
        and losses are float32.
      rest: for --region_head=encoder, what follows the feature map in the encoder. Its variables
        are the backbone's.

    Raises:
      ValueError: the backbone's output is not a feature map.
    """

    def __init__(
        self,
        backbone: Callable[..., tf.Tensor],
        num_classes: int,
        config: DetectorConfig,
        precision: str = "float32",
        rest: Rest | None = None,
    ):
        super().__init__(name="faster_rcnn")
        dtype = policy(precision)
        self.config = config
        self.backbone = backbone
        self.num_classes = num_classes
        self._is_divided = rest is not None
        self.stride, self.channels = _probe(backbone)
        sizes = config.anchors.numbers("anchor_sizes")
        ratios = config.anchors.numbers("anchor_ratios")
        self._anchors = lambda rows, columns: anchor_grid(rows, columns, self.stride, sizes, ratios)
        self.norm = make_norm(config.backbone.backbone_norm, "float32", "backbone_norm")
        self.rpn = RegionProposalNetwork(config.rpn.rpn_width, len(sizes) * len(ratios), dtype)
        self.head = RegionHead(num_classes, self.channels, config.head, dtype, rest)
        features = self.norm(tf.zeros([1, 4, 4, self.channels]))
        self.rpn(features)
        self.head(features, tf.zeros([1, 1, 4]), self.stride)

    @property
    def encoder_variables(self) -> list[tf.Variable]:
        """The backbone's trainable variables, which have a learning rate of their own."""
        return list(getattr(self.backbone, "trainable_variables", ()))

    @property
    def has_batch_norm(self) -> bool:
        """Whether training exchanges statistics of the batch."""
        if getattr(self.backbone, "has_batch_norm", False):
            return True
        return has_batch_norm(self.norm) or has_batch_norm(self.head)

    @property
    def detector_variables(self) -> list[tf.Variable]:
        """All other trainable variables."""
        return [
            *self.norm.trainable_variables,
            *self.rpn.trainable_variables,
            *self.head.trainable_variables,
        ]

    def training_losses(
        self, images: tf.Tensor, sizes: tf.Tensor, boxes: tf.Tensor, labels: tf.Tensor, draws: Draws
    ) -> dict[str, tf.Tensor]:
        """Returns the losses of a batch: 'rpn_class', 'rpn_box', 'region_class', 'region_box' and
        their sum 'loss'.

        Args:
          images: float32 [B, H, W, 3] in [0, 1]; H and W are static and multiples of the stride. An
            image is in the top left corner, with padding below and to the right of it.
          sizes: heights and widths of the images without padding, [B, 2].
          boxes: [B, M, 4], [y1, x1, y2, x2] in pixels, within the images; M at least 1.
          labels: [B, M], classes from 0; -1 for padding.
          draws: random numbers, new ones at each step: determine which anchors and regions are
            sampled.
        """
        rpn = self.config.rpn
        objects = make_objects(boxes, labels)
        features, pooled, anchors = self._features(images, training=True)
        objectness, deltas = self.rpn(features)
        of_anchors, of_regions = draws.split()
        samples = anchor_samples(anchors, inside(anchors, sizes), objects, rpn, of_anchors)
        losses = rpn_losses(objectness, deltas, samples)
        proposals, valid = propose(
            objectness,
            deltas,
            anchors,
            sizes,
            rpn.rpn_train_candidates,
            rpn.rpn_train_proposals,
            rpn.rpn_nms_iou,
        )
        regions, samples = region_samples(proposals, valid, objects, self.config.head, of_regions)
        losses.update(
            region_losses(*self.head(pooled, regions, self.stride, training=True), samples)
        )
        return {**losses, "loss": tf.add_n(list(losses.values()))}

    def call(
        self, images: tf.Tensor, sizes: tf.Tensor, least_score: tf.Tensor | None = None
    ) -> Detections:
        """Finds objects; images and sizes as in `training_losses`, `least_score` overrides the
        `detection_score`.
        """
        rpn = self.config.rpn
        features, pooled, anchors = self._features(images, training=False)
        objectness, deltas = self.rpn(features)
        proposals, valid = propose(
            objectness,
            deltas,
            anchors,
            sizes,
            rpn.rpn_test_candidates,
            rpn.rpn_test_proposals,
            rpn.rpn_nms_iou,
        )
        logits, deltas = self.head(pooled, proposals, self.stride)
        return detect(logits, deltas, proposals, valid, sizes, self.config.inference, least_score)

    def find(self, images: tf.Tensor, sizes: tf.Tensor) -> Detections:
        """Finds objects in images uint8 [B, H, W, 3] of heights and widths [B, 2]."""
        return self(tf.image.convert_image_dtype(images, tf.float32), sizes)

    def _features(
        self, images: tf.Tensor, training: bool
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the feature map [B, H/stride, W/stride, C], the one that regions are pooled from,
        and anchors [N, 4].

        What follows in the encoder takes the map as it is; all else takes it with the norm.
        """
        height, width = images.shape[1:3]
        if height is None or width is None or height % self.stride or width % self.stride:
            raise ValueError(
                f"images of {height}x{width} px: both must be multiples of the stride,"
                f" {self.stride}"
            )
        rows = height // self.stride
        columns = width // self.stride
        # A TF-Hub module does not know the size of its output until it runs.
        features = tf.ensure_shape(
            self.backbone(images, training=training), [None, rows, columns, self.channels]
        )
        normalized = self.norm(features, training=training)
        return (
            normalized,
            features if self._is_divided else normalized,
            tf.constant(self._anchors(rows, columns)),
        )


def _normal(deviation):
    """Returns the initializer of new layers (Girshick 2015)."""
    return keras.initializers.RandomNormal(stddev=deviation)


def _probe(backbone):
    """Returns stride and channels of a backbone, from its features of a small image."""
    strategy = tf.distribute.get_strategy()
    # In the scope of a strategy a loaded module runs only on replicas.
    probe = tf.function(
        lambda: backbone(tf.zeros([1, PROBE, PROBE, 3]), training=False), autograph=False
    )
    features = strategy.experimental_local_results(strategy.run(probe))[0]
    if (
        features.shape.rank != 4
        or features.shape[1] != features.shape[2]
        or PROBE % features.shape[1]
    ):
        raise ValueError(
            f"the backbone turns [1, {PROBE}, {PROBE}, 3] into {features.shape.as_list()}, which is"
            " not a feature map"
        )
    return PROBE // features.shape[1], features.shape[-1]


def hat_weights(start: tf.Tensor, end: tf.Tensor, bins: int, points: int, cells: int) -> tf.Tensor:
    """Returns the weights [..., bins, cells] of the cells of an axis in the bins of regions from
    `start` to `end`.

    The centre of cell i is at i. Points up to one cell outside the map take the value at its
    border, others 0.
    """
    steps = (tf.range(bins * points, dtype=tf.float32) + 0.5) / (bins * points)
    position = start[..., None] + (end - start)[..., None] * steps  # [..., bins*points]
    inside = (position >= -1.0) & (position <= float(cells))
    position = tf.clip_by_value(position, 0.0, cells - 1.0)
    hat = tf.nn.relu(1.0 - tf.abs(position[..., None] - tf.range(cells, dtype=tf.float32)))
    hat = tf.where(inside[..., None], hat, 0.0)  # [..., bins*points, cells]
    return tf.reduce_mean(
        tf.reshape(hat, tf.concat([tf.shape(start), [bins, points, cells]], 0)), -2
    )


def roi_align(
    features: tf.Tensor, boxes: tf.Tensor, stride: float, size: int, points: int = 2, chunk: int = 0
) -> tf.Tensor:
    """Pools each box to a grid (He et al. 2017), without the offset of half a cell of the first
    implementations.

    A bin is the mean of points sampled bilinearly. This is linear in the feature map and separable,
    so it is a product with two small matrices per box, of rows and of columns: nothing is gathered,
    any number of points costs the same.

    Args:
      features: [B, H, W, C], float32 or bfloat16.
      boxes: [B, K, 4] in pixels; no gradient reaches them.
      stride: pixels per cell of the features.
      size: side of the grid.
      points: sampled per bin and axis.
      chunk: regions computed at a time, which bounds the intermediate [B, chunk, size, W, C]; 0:
        all.

    Returns:
      [B, K, size, size, C] in the dtype of `features`; 0 for boxes without area.
    """
    boxes = tf.stop_gradient(boxes)
    empty = tf.reduce_any(boxes[..., 2:] <= boxes[..., :2], -1)  # [B, K]
    y1, x1, y2, x2 = tf.unstack(boxes / stride - 0.5, axis=-1)
    rows = hat_weights(y1, y2, size, points, features.shape[1])  # [B, K, P, H]
    columns = hat_weights(x1, x2, size, points, features.shape[2])  # [B, K, Q, W]
    rows = tf.where(empty[..., None, None], 0.0, rows)
    return _pool(features, tf.cast(rows, features.dtype), tf.cast(columns, features.dtype), chunk)


def _pool(features: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, chunk: int) -> tf.Tensor:
    """Computes einsum('bhwc,bkph,bkqw->bkpqc') in the cheapest order, chunk by chunk.

    The custom gradient recomputes the intermediates, which the gradient of a loop would keep in
    memory.
    """
    count = rows.shape[1]
    chunk = min(chunk or count, count)
    weights = (_split(rows, chunk), _split(columns, chunk))

    @tf.custom_gradient
    def pool(features: tf.Tensor):
        def forward(weights):
            rows, columns = weights  # [B, c, P, H], [B, c, Q, W]
            return tf.matmul(columns[:, :, None], tf.einsum("bkph,bhwc->bkpwc", rows, features))

        def backward(total, slices):
            upstream, rows, columns = slices
            between = tf.matmul(columns[:, :, None], upstream, transpose_a=True)  # [B, c, P, W, C]
            return total + tf.cast(tf.einsum("bkph,bkpwc->bhwc", rows, between), tf.float32)

        def gradient(upstream: tf.Tensor):
            start = tf.zeros(tf.shape(features), tf.float32)
            total = tf.foldl(
                backward, (_split(upstream, chunk), *weights), start, parallel_iterations=1
            )
            return tf.cast(total, features.dtype)

        pooled = tf.map_fn(
            forward, weights, parallel_iterations=1, fn_output_signature=features.dtype
        )
        pooled = tf.transpose(pooled, [1, 0, 2, 3, 4, 5])  # [B, n, chunk, P, Q, C]
        pooled = tf.reshape(
            pooled,
            tf.concat([tf.shape(pooled)[:1], [pooled.shape[1] * chunk], pooled.shape[3:]], 0),
        )
        return pooled[:, :count], gradient

    return pool(features)


def _split(x: tf.Tensor, chunk: int) -> tf.Tensor:
    """Splits [B, K, ...] to [n, B, chunk, ...], padded with zeros if chunk does not divide K."""
    count = -(-x.shape[1] // chunk)
    x = tf.pad(x, [[0, 0], [0, count * chunk - x.shape[1]]] + [[0, 0]] * (x.shape.rank - 2))
    shape = tf.concat([tf.shape(x)[:1], [count, chunk], x.shape[2:]], 0)
    x = tf.reshape(x, shape)  # [B, n, chunk, ...]
    return tf.transpose(x, [1, 0, *range(2, x.shape.rank)])
