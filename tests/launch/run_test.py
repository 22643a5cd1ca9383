"""Scripts of launches on a fake Google Cloud that loses connections, preempts, refuses: no TPU is left."""

import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from tests.launch.cloud import RESULT, TRAINING

LOG = "step 1\nstep 2\nstep 3\n"
STOCKOUT = (
    'There is no more capacity in the zone "europe-west4-a"; you can try in another zone [EID: 0x1]'
)
QUOTA = "RESOURCE_EXHAUSTED: Quota limit 'TPUV3CoresPerProjectPerZone' has been exceeded. Limit: 8 in zone z."
DENIED = (
    "PERMISSION_DENIED: Permission 'tpu.nodes.create' denied on 'projects/p/locations/z/nodes/cpc'"
)
POD = {"accelerator_type": "v3-32", "spot": True, "queue": True, "project": "mine"}
FLAGS = {"create_flags": "--network='my net'", "ssh_flags": "--internal-ip"}


@pytest.mark.parametrize("settings", [{}, {**POD, **FLAGS}])
def test_a_script_is_one_of_bash(settings, cloud):
    text = cloud.fill(**settings)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-s", "bash", "-"], input=text, text=True, check=True)


@pytest.mark.parametrize(("name", "settings"), [
    ("tpu", {"spot": True}),
    ("gpus", {"zone": "", "accelerator_type": "A100:8"}),
])  # fmt: skip
def test_a_task_for_skypilot(name, settings, cloud):
    text = cloud.fill(format="skypilot", **settings)
    shortened = re.sub(r"(?s)(\.(?:flags|txt) << 'END'\n).*?\n( *)END\n", r"\1\2...\n\2END\n", text)
    path = pathlib.Path(__file__).parent / f"{name}.yaml"
    assert shortened.replace(f"{cloud.root}/code", "CODE") == path.read_text()


pytestmark = pytest.mark.slow


def test_a_run_goes_to_a_tpu_and_back(cloud):
    ended = cloud.launch()
    trained = ["scp", "install", "start", "follow", "state"]
    assert cloud.steps == ["describe", "create", "describe", *trained, "delete", "fetch"], (
        ended.told
    )
    assert (ended.status, ended.log) == (0, LOG)
    assert "asking for the TPU cpc (v3-8) in europe-west4-a" in ended.told
    assert ended.told.splitlines()[-1].endswith(
        "done: runs/x/pretrain; checkpoints stay in gs://bucket/runs/x/pretrain"
    )
    assert [path.name for path in (cloud.root / "runs/x/pretrain").iterdir()] == ["result.json"]
    assert not list((cloud.root / "tmp").iterdir())
    assert "tensorflow==2.15.0\n" in (cloud.root / "pip").read_text()


def test_a_pod_gets_the_code_and_an_input_server_on_all_hosts_and_trains_on_the_first(cloud):
    told = "echo $TPU_NAME $CPC_TF_FEED $CPC_TF_FEED_SECRET $(stat -c %a feed.secret run.flags ../cpc_tf.tar.gz .)"
    cloud.train(f"{told}; cat run.flags > $FAKE_GCLOUD/flags; {RESULT}")
    ended = cloud.launch(**POD, **FLAGS)
    assert ended.log == "cpc :8480 feed.secret 600 600 600 700\n", ended.told
    assert (cloud.root / "pip").read_text().count("cloud-tpu-client\n") == 4
    flags = (cloud.root / "flags").read_text().splitlines()
    assert {"--strategy=tpu", "--tpu=cpc", "--augment_engine=auto", "--batch_size=32"} <= set(flags)
    assert cloud.steps[cloud.steps.index("install") :][:3] == ["install", "feed", "start"]
    assert len(set((cloud.root / "feeds").read_text().splitlines())) == 4
    assert "the TPU is WAITING_FOR_RESOURCES; asking again every 0.02 s" in ended.told


def test_a_pod_that_augments_with_tensorflow_needs_no_input_server(cloud):
    assert not re.search(
        "feed|FEED", cloud.fill("--augment_engine=reference", **POD).replace("feed_", "")
    )


# Trains once more after each kill, and counts that in the bucket, which outlives the TPU.
TWICE = f"echo >> $FAKE_GCLOUD/starts; if test $(wc -l < $FAKE_GCLOUD/starts) = 1; then echo first; sleep 60; fi; {RESULT}"


def when_followed(times):
    """Waits until the log has been asked for so often."""
    return (
        f"until test $(grep -c 'host.sh follow' $FAKE_GCLOUD/calls) = {times}; do sleep 0.05; done"
    )


AFTER_SECOND = f"echo step 1; {when_followed(2)}; echo step 2; echo step 3; {RESULT}"
SHORT = f"refuse {STOCKOUT}"
# At first the input server of the training's host ends, and the training for its sake.
LOSES_ITS_FEED = (
    "test $(wc -l < $FAKE_GCLOUD/starts) = 2 || { kill -KILL -- -$(cat feed.pid); exit 8; }"
)


# The training, what goes wrong (see fake_gcloud), settings, how often steps were called, and what is told.
@pytest.mark.parametrize(("training", "plan", "settings", "counts", "told"), [
    (TWICE, {"follow": ["preempt"]}, {"spot": True}, {"create": 2, "start": 3}, "the TPU is PREEMPTED; the training w"),
    (TWICE, {"follow": ["preempt"]}, {"spot": True, "queue": True}, {"queue_create": 2}, "SUSPENDED; the training"),
    (TWICE, {"follow": ["reboot"]}, {}, {"create": 1, "start": 2}, ""),
    (AFTER_SECOND, {"follow": ["break"]}, {}, {"start": 1}, "the connection was lost; the training goes on"),
    (AFTER_SECOND, {
        "follow": ["break"],
        "state": ["refuse Connection refused"],
        "start": ["ok", "refuse Connection refused"],
        "describe": ["ok", "ok", "refuse Unable to find the server", "refuse Reauthentication: gcloud auth login"],
    }, {}, {"create": 1}, "gcloud does not answer: ERROR: (gcloud.compute.tpus) Reauthentication"),
    (TRAINING, {"create": [SHORT, "refuse 503 The service is UNAVAILABLE", SHORT]}, {}, {"create": 4}, "no more cap"),
    (TRAINING, {"scp": ["refuse Connection refused"] * 3}, {}, {"scp": 4}, "'ship' failed on the TPU; trying again"),
    (TRAINING, {"queue_delete": ["refuse x"] * 2}, {"queue": True}, {"queue_delete": 3}, "is not deleted yet: "),
    (f"echo >> $FAKE_GCLOUD/starts; {LOSES_ITS_FEED}; {RESULT}", {}, {"accelerator_type": "v3-16"},
     {"install": 1, "feed": 2, "start": 2}, "the training ended with status 8 (1 of 5 restarts within an hour)"),
], ids=["preempted", "preempted in a queue", "host restarted", "connection lost", "gcloud does not answer",
        "no capacity", "network comes later", "deletion fails", "an input server ends"])  # fmt: skip
def test_the_run_goes_on_to_its_result(training, plan, settings, counts, told, cloud):
    cloud.train(training)
    cloud.plan(**plan)
    ended = cloud.launch(**settings)
    assert ended.status == 0, ended.told
    assert {step: cloud.steps.count(step) for step in counts} == counts
    assert (cloud.root / "runs/x/pretrain/result.json").exists()
    assert told in ended.told
    if (
        "echo step" in training or training == TRAINING
    ):  # the log is whole; of lost connections lines may come twice
        assert [*dict.fromkeys(ended.log.splitlines(keepends=True))] == LOG.splitlines(
            keepends=True
        )


@pytest.mark.parametrize(("training", "restarts", "status", "starts"), [
    ("echo 'error: --seed=x: must be a number' >&2; exit 2", 5, 2, 1),
    ("echo failed; exit 1", 2, 1, 3),
])  # fmt: skip
def test_a_training_that_cannot_go_on_ends_the_launch_with_its_message_and_status(
    training, restarts, status, starts, cloud
):
    cloud.train(training)
    ended = cloud.launch(restarts=restarts)
    assert ended.status == status
    assert ended.log == ("error: --seed=x: must be a number\n" if status == 2 else "failed\n" * 3)
    assert f"the training ended with status {status}" in ended.told
    assert cloud.steps.count("start") == starts
    assert cloud.steps[-1] == "delete"


@pytest.mark.parametrize(("plan", "settings", "message"), [
    ({"create": [f"refuse {QUOTA}"]}, {}, "no TPU yet: .*Quota limit.*\n.*refuses it for good"),
    ({"queue_create": [f"refuse {DENIED}"]}, {"queue": True}, "no TPU yet: .*PERMISSION_DENIED"),
    ({"describe": [f"refuse {DENIED}"]}, {}, "gcloud cannot ask for the TPU: .*PERMISSION_DENIED"),
    ({"queue_describe": ["ok", "ok", "state FAILED"]}, {"queue": True}, "the request failed; gcloud compute tpus"),
    ({"install": ["refuse No matching distribution"] * 5}, {}, "'install' failed 5 times on the TPU, as above"),
    ({"fetch": ["refuse"]}, {}, "could not be copied: it is in gs://bucket/runs/x/pretrain"),
    ({}, {"accelerator_type": "v3-16"}, "no C.. compiler found\n(?s:.*)'start' failed 5 times on the TPU"),
])  # fmt: skip
def test_what_gcloud_or_a_host_refuses_is_said(plan, settings, message, cloud):
    cloud.feed("echo 'error: input server: no C++ compiler found'; exit 2")
    cloud.plan(**plan)
    ended = cloud.launch(**settings)
    assert ended.status == 1
    assert re.search(message, ended.told), ended.told
    assert cloud.steps.count("create") + cloud.steps.count("queue_create") == (
        "describe" not in plan
    )


def test_a_second_launch_goes_on_with_the_run_that_is_there(cloud):
    cloud.train(f"{when_followed(1)}; {TRAINING}")
    cloud.plan(start=["signal KILL"])
    assert cloud.launch().status == -signal.SIGKILL
    before = len(cloud.steps)
    ended = cloud.launch()
    assert cloud.steps[before + 2 :] == ["follow", "state", "delete", "fetch"], ended.told
    assert (ended.status, ended.log) == (0, LOG)
    assert (
        "goes on with the TPU cpc, which is there already, and deletes it in the end" in ended.told
    )


def test_a_tpu_of_another_run_stays(cloud):
    (cloud.root / "tpu").write_text("READY")
    (cloud.root / "hosts/0").mkdir(parents=True)
    ended = cloud.launch()
    assert ended.status == 1
    assert ended.told.splitlines()[-1].endswith(
        "there is a TPU cpc that is not known to be of this run; take another --name, or delete it: "
        "gcloud compute tpus tpu-vm delete cpc --zone=europe-west4-a --quiet"
    )
    cloud.stays = True


def test_a_tpu_that_cannot_be_deleted_is_the_last_word(cloud):
    cloud.train("exit 2")
    cloud.plan(delete=["refuse try later"] * 10)
    ended = cloud.launch()
    assert ended.status == 7
    assert ended.told.splitlines()[-1].endswith(
        "the TPU cpc could not be deleted and COSTS MONEY while it exists; run: "
        "gcloud compute tpus tpu-vm delete cpc --zone=europe-west4-a --quiet"
    )
    cloud.stays = True


@pytest.mark.parametrize(("step", "name", "status"), [
    ("create", "INT", 130), ("queue_create", "INT", 130), ("install", "TERM", 143), ("follow", "HUP", 129),
])  # fmt: skip
def test_a_signal_at_any_step_deletes_the_tpu(step, name, status, cloud):
    cloud.plan(**{step: [f"signal {name}"]})
    ended = cloud.launch(queue=step == "queue_create")
    assert ended.status == status, ended.told
    assert cloud.steps[-1] == ("queue_delete" if step == "queue_create" else "delete")


def test_a_creation_that_was_cut_off_may_still_come(cloud):
    """Google may have begun with it after the first deletion."""
    cloud.plan(create=["signal INT"], delete=["refuse NOT_FOUND"])
    assert cloud.launch().status == 130
    assert cloud.steps.count("delete") == 2


def test_a_signal_while_it_deletes_waits_for_the_end(cloud):
    cloud.plan(delete=["signal INT"])
    assert cloud.launch().status == 0
    assert (cloud.root / "runs/x/pretrain/result.json").exists()


def test_after_a_signal_the_training_saves_its_step(cloud):
    cloud.train(
        "trap 'echo saved > $FAKE_GCLOUD/saved; exit 143' TERM; echo on; while true; do sleep 0.05; done"
    )
    cloud.plan(follow=["break"], state=["signal INT"])
    ended = cloud.launch()
    assert ended.status == 130
    assert (cloud.root / "saved").exists(), ended.told
    assert cloud.steps[-2:] == ["stop", "delete"]
