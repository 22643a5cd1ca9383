"""Launches on a fake Google Cloud that loses connections, preempts, refuses, and is interrupted: no TPU is left."""

import pathlib
import re
import signal
import subprocess

import pytest

from cpc_tf.launch import archive, commands, gcloud
from cpc_tf.launch.run import NotDeleted, TrainingEnded
from cpc_tf.launch.training import read
from cpc_tf.launch.waiting import Failed
from cpc_tf.settings import ConfigError
from cpc_tf.termination import Interrupted
from tests.launch.cloud import RESULT, TRAINING, WORDS, config_of

pytestmark = pytest.mark.slow
LOG = "step 1\nstep 2\nstep 3\n"
STOCKOUT = 'There is no more capacity in the zone "europe-west4-a"; you can try in another zone [EID: 0x1]'
QUOTA = "RESOURCE_EXHAUSTED: Quota limit 'TPUV3CoresPerProjectPerZone' has been exceeded. Limit: 8 in zone z."
DENIED = "PERMISSION_DENIED: Permission 'tpu.nodes.create' denied on 'projects/p/locations/z/nodes/cpc'"
# Trains once more after each kill, and counts that in the bucket, which outlives the TPU.
TWICE = (
    f"echo >> $FAKE_GCLOUD/starts; if test $(wc -l < $FAKE_GCLOUD/starts) = 1; then echo first; sleep 60; fi; {RESULT}"
)


def test_a_run_goes_to_a_tpu_and_back(cloud, capfd):
    cloud.launch()
    trained = ["state", "scp", "install", "start", "follow", "state"]
    assert cloud.steps == ["describe", "create", "describe", *trained, "delete", "describe", "fetch"]
    log, told = capfd.readouterr()
    assert log == LOG
    assert "creating TPU cpc (v3-8) in europe-west4-a" in told
    assert told.splitlines()[-1].endswith("done: runs/x/pretrain; checkpoints stay in gs://bucket/runs/x/pretrain")
    assert [path.name for path in (cloud.root / "runs/x/pretrain").iterdir()] == ["result.json"]
    assert "tensorflow==2.15.0\n" in (cloud.root / "pip").read_text()


POD = {"accelerator_type": "v3-32", "spot": True, "queue": True, "project": "mine"}
FLAGS = {"create_flags": "--network=mine", "ssh_flags": "--internal-ip"}


@pytest.mark.parametrize(("name", "settings"), [("one_host", {}), ("pod", {**POD, **FLAGS})])
def test_the_printed_script_is_the_launch(name, settings, cloud, capfd):
    """Nothing is called until someone runs it: then it does the same."""
    cloud.launch(dry_run=True, **settings)
    assert not (cloud.root / "calls").exists()
    script = capfd.readouterr().out
    wanted = (pathlib.Path(__file__).parent / f"scripts/{name}.sh").read_text()
    assert not list(cloud.root.glob("**/cpc_tf.tar.gz"))
    assert re.sub(r"(?s)(<< 'END'\n).*?\nEND\n", r"\1...\n", script).replace(f"{cloud.root}/code", "CODE") == wanted
    if name == "one_host":
        done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True)
        assert LOG in done.stdout, done.stderr
        assert cloud.steps[-2:] == ["delete", "fetch"]
        assert (cloud.root / "runs/x/pretrain/result.json").exists()


def test_a_pod_gets_the_code_and_a_feed_on_all_hosts_and_trains_on_the_first(cloud, capfd):
    told = "echo $TPU_NAME $CPC_TF_FEED $CPC_TF_FEED_SECRET $(stat -c %a feed.secret)"
    cloud.train(f"{told}; cat run.flags > $FAKE_GCLOUD/flags; {RESULT}")
    cloud.launch(**POD)
    assert (cloud.root / "pip").read_text().count("cloud-tpu-client\n") == 4
    flags = (cloud.root / "flags").read_text().splitlines()
    assert {"--strategy=tpu", "--tpu=cpc", "--augment_engine=auto", "--batch_size=32"} <= set(flags)
    assert cloud.steps[cloud.steps.index("install") :][:3] == ["install", "feed", "start"]
    assert len(set((cloud.root / "feeds").read_text().splitlines())) == 4
    log, told = capfd.readouterr()
    assert log == "cpc :8480 feed.secret 600\n"
    assert "the request for the TPU cpc (v3-32, europe-west4-a) is WAITING_FOR_RESOURCES; asking" in told


def test_a_pod_that_augments_with_tensorflow_needs_no_feed(cloud, capfd):
    cloud.launch("--augment_engine=reference", dry_run=True, **POD)
    assert not re.search("host.sh feed|CPC_TF_FEED", capfd.readouterr().out)


def after_second(step):
    """A training that goes on only once a step of the launch has been called for the second time."""
    wait = f"until test $(grep -c 'host.sh {step}' $FAKE_GCLOUD/calls) = 2; do sleep 0.05; done"
    return f"echo step 1; {wait}; echo step 2; echo step 3; {RESULT}"


# At the training's first start its host's feed ends, and is back before the training ends.
UNTIL_BACK = "until test $(wc -l < $FAKE_GCLOUD/feeds) = 3; do sleep 0.1; done"
LOSES_ITS_FEED = f"touch $FAKE_GCLOUD/lost; pkill -KILL -g $(cat feed.pid) sleep; {UNTIL_BACK}; exit 8"
# The training ends for good at first, since its host's feed does not come again.
LOSES_FEEDS = "test $(wc -l < $FAKE_GCLOUD/starts) = 3 || { kill -KILL -- -$(cat feed.pid); exit 8; }"
SHORT = f"refuse {STOCKOUT}"
POD_OF_TWO = {"accelerator_type": "v3-16", "restarts": 1}


# The training, what goes wrong (see fake_gcloud), settings, how often steps were called, and what is told.
@pytest.mark.parametrize(("training", "plan", "settings", "counts", "told"), [
    (TWICE, {"follow": ["preempt"]}, {"spot": True}, {"create": 2, "start": 2}, "the TPU cpc is PREEMPTED; the train"),
    (TWICE, {"follow": ["preempt"]}, {"spot": True, "queue": True}, {"queue_create": 2, "start": 2}, "PREEMPTED; "),
    (TWICE, {"follow": ["reboot"]}, {}, {"create": 1, "start": 2}, ""),
    (after_second("follow"), {"follow": ["break"]}, {}, {"start": 1}, "the connection was lost, the training goes on"),
    (after_second("state"), {
        "follow": ["break"],
        "state": ["ok", *["refuse Connection refused"] * 6],
        "describe": ["ok", "ok", "refuse Unable to find the server", "refuse Reauthentication: gcloud auth login"],
    }, {}, {"start": 1}, ""),
    (TRAINING, {"create": [SHORT, "refuse 503 The service is UNAVAILABLE", SHORT]}, {}, {"create": 4}, "no capacity"),
    (TRAINING, {"delete": ["refuse x"], "queue_delete": ["refuse x"] * 2}, {"queue": True}, {"queue_delete": 3}, ""),
    (f"test -e $FAKE_GCLOUD/lost || {{ {LOSES_ITS_FEED}; }}; {RESULT}", {}, POD_OF_TWO,
     {"install": 1, "feed": 1, "start": 1}, ""),  # the host itself starts them again
    (f"echo >> $FAKE_GCLOUD/starts; {LOSES_FEEDS}; {RESULT}", {}, POD_OF_TWO, {"feed": 2, "start": 2}, ""),
], ids=["preempted", "preempted in a queue", "host restarted", "connection lost", "log ends while it is lost",
        "no capacity", "deletion fails", "a feed ends", "all feeds end"])  # fmt: skip
def test_the_run_goes_on_to_its_result(training, plan, settings, counts, told, cloud, capfd):
    cloud.train(training)
    cloud.plan(**plan)
    cloud.launch(**settings)
    assert {step: cloud.steps.count(step) for step in counts} == counts
    assert (cloud.root / "runs/x/pretrain/result.json").exists()
    log, error = capfd.readouterr()
    assert told in error
    if "echo step" in training or training == TRAINING:  # the log is whole, and shown once
        assert log == LOG


AGAIN = "launch: ended with status 1; starts again in 0.01 s ({} of 2)\n".format


@pytest.mark.parametrize(("training", "settings", "status", "log"), [
    ("echo 'error: --seed=x: must be a number' >&2; exit 2", {}, 2, "error: --seed=x: must be a number\n"),
    ("echo failed; exit 1", {"restarts": 2}, 1, f"failed\n{AGAIN(1)}failed\n{AGAIN(2)}failed\n"),
])  # fmt: skip
def test_a_training_that_cannot_go_on_ends_the_launch_with_its_message_and_status(
    training, settings, status, log, cloud, capfd
):
    cloud.train(training)
    with pytest.raises(TrainingEnded, match=f"status {status}") as ended:
        cloud.launch(**settings)
    assert ended.value.status == status
    assert capfd.readouterr().out == log
    assert cloud.steps.count("start") == 1


OLD = ["ok", "ok", "state FAILED because the network 'default' is not there"]


@pytest.mark.parametrize(("plan", "settings", "message"), [
    ({"create": [f"refuse {QUOTA}"]}, {}, "the project's quota does not suffice"),
    ({"queue_create": [f"refuse {DENIED}"]}, {"queue": True}, "gcloud auth login"),
    ({"create": [SHORT]}, {"wait_hours": 0.0}, "no capacity for v3-8 in europe-west4-a: gave up after 0 min"),
    ({"queue_describe": OLD}, {"queue": True}, "request for the TPU cpc failed: the network 'default' is not there"),
    ({"fetch": ["refuse"]}, {}, "could not be copied: .* it is in gs://bucket/runs/x/pretrain"),
    ({}, {"accelerator_type": "v3-16"}, "a command on the TPU failed 5 times: .*no C.. compiler found"),
])  # fmt: skip
def test_a_refusal_is_an_error_with_what_can_be_done(plan, settings, message, cloud):
    if "queue_describe" in plan:
        (cloud.root / "request").write_text("FAILED because old")
    if "no capacity" in message or "quota" in message or "login" in message:  # there is nothing to delete
        cloud.plan(delete=[f"refuse {DENIED}"], queue_delete=[f"refuse {DENIED}"])
    cloud.feed("echo 'error: feed: no C++ compiler found'; exit 2")
    cloud.plan(**plan)
    with pytest.raises(Failed, match=message):
        cloud.launch(**settings)
    assert cloud.steps.count("create") + cloud.steps.count("queue_create") == 1
    assert ("start" in cloud.steps) is ("fetch" in plan)


def left_by_another_launch(words=WORDS):
    """A TPU on which an earlier launch, which was killed, started a training."""
    config = config_of()
    training = read(config, words)
    archive.write("code.tar.gz", config, training)
    steps = (commands.create(config), commands.ship(config, "code.tar.gz"), commands.install(config))
    for words in (*steps, commands.start(config, training)):
        assert gcloud.call(words).status == 0


def test_a_second_launch_goes_on_with_the_run_that_is_there(cloud, capfd):
    cloud.train(f"until grep -q 'host.sh follow' $FAKE_GCLOUD/calls; do sleep 0.05; done; {TRAINING}")
    left_by_another_launch()
    before = len(cloud.steps)
    cloud.launch()
    assert cloud.steps[before:] == ["describe", "state", "follow", "state", "delete", "describe", "fetch"]
    log, told = capfd.readouterr()
    assert log == LOG
    assert "goes on with the TPU cpc, which is there already, and deletes it in the end" in told


def test_a_tpu_where_another_run_trains_stays(cloud, capfd):
    cloud.train("sleep 60")
    left_by_another_launch([*WORDS[:-1], "--workdir=gs://bucket/runs/y/pretrain"])
    with pytest.raises(ConfigError, match="on this TPU runs `pretrain gs://bucket/runs/y/pretrain`; take another --na"):
        cloud.launch()
    assert cloud.exists
    cloud.stays = True
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.endswith("to delete it run: gcloud compute tpus tpu-vm delete cpc --zone=europe-west4-a --quiet")


def test_a_signal_before_it_has_used_a_tpu_that_is_there_says_that_it_stays(cloud, capfd):
    (cloud.root / "tpu").write_text("CREATING")
    cloud.plan(describe=["ok", "signal SIGINT"])
    with pytest.raises(Interrupted):
        cloud.launch()
    assert "goes on costing money; to delete it run: gcloud" in capfd.readouterr().err.splitlines()[-1]
    assert "delete" not in cloud.steps
    cloud.stays = True


def test_a_tpu_where_a_run_has_ended_takes_the_next_one_and_one_that_was_preempted_is_made_anew(cloud, capfd):
    cloud.train("echo error; exit 2")
    left_by_another_launch()
    cloud.train(TRAINING)
    cloud.launch()
    assert capfd.readouterr().out == LOG
    assert cloud.steps.count("create") == 1
    (cloud.root / "tpu").write_text("PREEMPTED")
    before = len(cloud.steps)
    cloud.launch()
    assert cloud.steps[before:][:4] == ["describe", "delete", "describe", "describe"]


def test_a_tpu_that_cannot_be_deleted_is_the_last_word(cloud, capfd):
    cloud.train("exit 2")
    cloud.plan(delete=["refuse try later"] * 5)
    with pytest.raises(NotDeleted) as ended:
        cloud.launch()
    assert ended.value.status == 7
    assert str(ended.value) == (
        "the TPU cpc could not be deleted and COSTS MONEY while it exists; run: "
        "gcloud compute tpus tpu-vm delete cpc --zone=europe-west4-a --quiet"
    )
    assert capfd.readouterr().err.count("is not deleted yet: (gcloud.compute.tpus) try later") == 5
    cloud.stays = True


@pytest.mark.parametrize(
    ("step", "name"),
    [("create", "SIGINT"), ("queue_create", "SIGINT"), ("install", "SIGTERM"), ("follow", "SIGHUP")],
)
def test_a_signal_at_any_step_deletes_the_tpu(step, name, cloud):
    before = signal.getsignal(signal.SIGINT)
    cloud.plan(**{step: [f"signal {name}"]})
    with pytest.raises(Interrupted) as ended:
        cloud.launch(queue=step == "queue_create")
    assert ended.value.number == signal.Signals[name]
    assert signal.getsignal(signal.SIGINT) is before
    # A creation that was cut off may still be coming.
    assert cloud.steps.count("delete") == (2 if "create" in step else 1)


@pytest.mark.parametrize(("step", "queue"), [("delete", False), ("queue_delete", True)])
def test_a_signal_while_it_deletes_waits_for_the_end(step, queue, cloud, capfd):
    cloud.plan(**{step: ["signal SIGINT"]})
    cloud.launch(queue=queue)
    assert "the TPU is being deleted; please wait" in capfd.readouterr().err
    assert (cloud.root / "runs/x/pretrain/result.json").exists()


def test_after_a_signal_the_training_saves_its_step(cloud):
    cloud.train("trap 'echo saved > $FAKE_GCLOUD/saved; exit 143' TERM; echo on; while true; do sleep 0.05; done")
    cloud.plan(follow=["break"], state=["ok", "signal SIGINT"])
    with pytest.raises(Interrupted):
        cloud.launch()
    assert (cloud.root / "saved").exists()
    assert cloud.steps[-3:] == ["stop", "delete", "describe"]
