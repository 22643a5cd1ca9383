"""What a replica's step sends, counted in programs that a pod of TPUs would get."""

import pytest
import tensorflow as tf

from benchmarks.exchanges import written
from benchmarks.pod import Pod
from cpc_tf.pretrain.trainee import Pretraining
from cpc_tf.settings import replace
from cpc_tf.training.weights import Weights
from tests.pretrain.tiny import TINY

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("tiny_encoder")]
REPLICAS, BATCH, WIDTH = 4, 8, 16
PATCHES = 5 * 5


def sent(**changes):
    """(bytes of the weights, bytes that a step sends, the trainee) of 2 images a replica."""
    pod = Pod(REPLICAS)
    trainee = Pretraining(replace(TINY, batch_size=BATCH, **changes), pod, 100)
    patches = tf.TensorSpec([BATCH // REPLICAS, 5, 5, 8, 8, 3], tf.uint8)
    program = pod.program(lambda patches: trainee.train_step({"patches": patches}), patches)
    found = written(program)
    assert {each["kind"] for each in found} == {"all-reduce"}
    weights = 4 * sum(v.shape.num_elements() for v in trainee.trained)
    return weights, sum(each["bytes"] for each in found), trainee


SAMPLE = 4 * BATCH * PATCHES * WIDTH  # of latents, whose spread is reported


def test_gradients_are_sent_once_and_averages_not_at_all():
    weights, total, trainee = sent(negative_images=2)
    assert trainee.average is not None
    assert total == weights + SAMPLE


def test_an_evaluation_with_averages_and_the_check_of_weights_send_nothing():
    pod = Pod(REPLICAS)
    trainee = Pretraining(replace(TINY, batch_size=BATCH), pod, 100)
    weights = Weights(pod, trainee.trained)
    patches = tf.TensorSpec([BATCH // REPLICAS, 5, 5, 8, 8, 3], tf.uint8)

    def evaluate(patches):
        trainee._exchange_own()
        return trainee.model.encode(patches), weights._own_sums()

    assert written(pod.program(evaluate, patches)) == []


def test_targets_of_groups_beyond_a_replica_and_batch_norms_statistics_are_sent_with_their_gradients():
    """And the running statistics are not."""
    weights, total, trainee = sent(norm="batch", negative_images=4)
    targets = 4 * BATCH * PATCHES * trainee.model.settings.target_dim
    channels = sum(v.shape[0] for v in trainee.model.encoder.non_trainable_variables) // 2  # of means and variances
    assert total == weights + SAMPLE + 2 * targets + 4 * 2 * 2 * channels
