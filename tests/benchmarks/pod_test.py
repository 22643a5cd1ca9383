"""What a replica's step sends, counted in programs that a pod of TPUs would get."""

import pytest
import tensorflow as tf

from benchmarks.exchanges import exchanges, written
from benchmarks.pod import Pod
from cpc_tf.core.settings import replace
from cpc_tf.pretrain.trainee import Pretraining
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]
REPLICAS, BATCH, WIDTH = 4, 8, 16
PATCHES = 5 * 5
IMAGES = tf.TensorSpec([BATCH // REPLICAS, 5, 5, 8, 8, 3], tf.uint8)  # of a replica


def sent(**changes):
    """(bytes of the weights, bytes that a step sends, the trainee) of 2 images a replica."""
    pod = Pod(REPLICAS)
    trainee = Pretraining(replace(TINY, batch_size=BATCH, **changes), pod, 100)
    program = pod.program(lambda patches: trainee.train_step({"patches": patches}), IMAGES)
    found = written(program)
    assert {each["kind"] for each in found} == {"all-reduce"}
    weights = 4 * sum(v.shape.num_elements() for v in trainee.trained)
    return weights, sum(each["bytes"] for each in found), trainee


SAMPLE = 4 * BATCH * PATCHES * WIDTH  # of latents, whose spread is reported


def test_gradients_are_exchanged_once_and_averages_never():
    weights, total, trainee = sent(negative_images=2)
    assert trainee.average is not None
    assert total == weights + SAMPLE


def test_an_evaluation_with_averages_sends_nothing():
    pod = Pod(REPLICAS)
    trainee = Pretraining(replace(TINY, batch_size=BATCH), pod, 100)

    def evaluate(patches):
        trainee._exchange_own()
        return trainee.model.encode(patches)

    assert written(pod.program(evaluate, IMAGES)) == []


def test_cross_replica_targets_and_batch_statistics_are_exchanged():
    """And the running statistics are not."""
    weights, total, trainee = sent(norm="batch", negative_images=4)
    targets = 4 * BATCH * PATCHES * trainee.model.settings.target_dim
    # of means and variances
    channels = sum(v.shape[0] for v in trainee.model.encoder.non_trainable_variables) // 2
    assert total == weights + SAMPLE + 2 * targets + 4 * 2 * 2 * channels


PROGRAM = """
  %a = f32[4,2]{1,0:T(8,128)} all-reduce(%x), channel_id=1, metadata={op_name="all-reduce(y)"}
  %b = (f32[3]{0:T(256)}, bf16[5]{0}, /*index=2*/f32[]) all-reduce-start(%x, %y, %z), channel_id=2
  %c = (f32[3]{0}, bf16[5]{0}, f32[]) all-reduce-done(%b)
  %d = (s32[2]{0}, s32[8]{0}) all-gather-start(%i), dimensions={0}
  %e = f32[9]{0} fusion(%a), kind=kLoop, calls=%all-reduce
"""


def test_exchanges_are_counted_once_by_result_bytes():
    assert exchanges(PROGRAM) == [
        {"kind": "all-reduce", "dtype": "f32", "count": 2, "bytes": 4 * (8 + 3 + 1)},
        {"kind": "all-gather", "dtype": "s32", "count": 1, "bytes": 4 * 8},
        {"kind": "all-reduce", "dtype": "bf16", "count": 0, "bytes": 2 * 5},
    ]
