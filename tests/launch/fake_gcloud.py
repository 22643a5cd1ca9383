"""Plays gcloud: keeps a TPU in the folder $FAKE_GCLOUD and runs the commands of its hosts here, in a folder for each.

`plan/STEP` says what goes wrong at the next calls of a step, a line for each call ('ok': nothing):

    refuse MESSAGE      fails with the message
    signal NAME         sends the launch a signal, after the step was done; the call then hangs, unless it deletes
    break               of `follow`: the connection is lost within the log; gcloud runs the command once more
    preempt             of `follow`: the TPU is preempted within the log
    reboot              of `follow`: the host is restarted within the log
    state NAME          of `describe` and `queue_describe`: the state from now on
"""

import contextlib
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(os.environ["FAKE_GCLOUD"])
# Step -> flags that gcloud has for it, by its reference.
_BOUGHT = {"--accelerator-type", "--spot", "--network"}
_SSH = {"--worker", "--internal-ip"}
FLAGS = {
    "create": {"--version", *_BOUGHT},
    "describe": {"--format"},
    "delete": set(),
    "queue_create": {"--node-id", "--runtime-version", *_BOUGHT},
    "queue_describe": {"--format"},
    "queue_delete": {"--force"},
    "scp": _SSH,
    "ssh": {"--command", "--ssh-flag", *_SSH},
}


def main(words):
    with (ROOT / "calls").open("a") as calls:
        calls.write(shlex.join(["gcloud", *words]) + "\n")
    if words[0] == "storage":
        return fetch(*words[2:4])
    assert words[:2] == ["compute", "tpus"], words
    group, verb, *rest = words[2:]
    step = f"queue_{verb}" if group == "queued-resources" else verb
    names = [word for word in rest if not word.startswith("--")]
    flags = dict(word.partition("=")[::2] for word in rest if word.startswith("--"))
    unknown = set(flags) - FLAGS[step] - {"--zone", "--project", "--quiet"}
    assert not unknown, unknown
    if step == "ssh":
        step = flags["--command"].rpartition("host.sh ")[2].split()[0].strip("'")
    action, _, detail = planned(step).partition(" ")
    if action == "refuse":
        return fail(detail)
    if action == "state":
        (ROOT / ("request" if step.startswith("queue") else "tpu")).write_text(detail)
    status = do(step, names, flags, action)
    if action == "signal":
        os.kill(os.getppid(), signal.Signals[detail])
        if "delete" not in step:
            time.sleep(60)
    return status


def planned(step):
    """What goes wrong now: the first line of the step's plan, which is removed."""
    path = ROOT / "plan" / step
    first, _, rest = (path.read_text() if path.exists() else "").partition("\n")
    if path.exists():
        path.write_text(rest)
    return first or "ok"


def do(step, names, flags, action):
    tpu, request = ROOT / "tpu", ROOT / "request"
    if step == "create":
        if tpu.exists():
            return fail("ALREADY_EXISTS: Resource already exists")
        create(flags["--accelerator-type"])
    elif step == "queue_create":
        (ROOT / "type").write_text(flags["--accelerator-type"])
        request.write_text("WAITING_FOR_RESOURCES")
    elif step == "queue_describe" and request.exists():
        print(request.read_text().replace(" because ", "\t"))
        if request.read_text() == "WAITING_FOR_RESOURCES":  # it comes at the second question
            request.write_text("ACTIVE")
            create((ROOT / "type").read_text())
    elif step == "queue_delete" and request.exists():
        request.unlink()
        remove()
    elif step == "describe" and tpu.exists():
        print(tpu.read_text())
    elif step == "delete" and tpu.exists():
        remove()
    elif step in ("describe", "delete", "queue_describe", "queue_delete"):
        return fail("NOT_FOUND: Resource 'projects/p/locations/z/nodes/cpc' was not found")
    elif not tpu.exists() or tpu.read_text() != "READY":
        return fail("This TPU has terminal state, so it cannot be used anymore.")
    elif step == "scp":
        for host in hosts(flags):
            shutil.copy(names[0], host / names[1].partition(":")[2])
    else:
        return ssh(flags, action)
    return 0


def ssh(flags, action):
    statuses = []
    for host in hosts(flags):
        process = subprocess.Popen(
            ["bash", "-c", flags["--command"]],
            cwd=host,
            env={**os.environ, "HOME": str(host), "PATH": f"{ROOT}/bin_of_hosts:{os.environ['PATH']}"},
            stdout=subprocess.PIPE if action in ("break", "preempt", "reboot") else None,
        )
        if process.stdout:
            os.write(1, os.read(process.stdout.fileno(), 7))  # some of the log
            process.kill()
            process.wait()
        if action == "break":
            time.sleep(0.05)
            return subprocess.call(["bash", "-c", flags["--command"]], cwd=host)
        if action == "preempt":
            remove()
            (ROOT / "tpu").write_text("PREEMPTED")
            if (ROOT / "request").exists():
                (ROOT / "request").write_text("SUSPENDED")
        if action == "reboot":
            end_all()
        statuses.append(process.wait())
    return next((status for status in statuses if status), 0)


def hosts(flags):
    every = sorted((ROOT / "hosts").iterdir())
    worker = flags.get("--worker", "0")
    return every if worker == "all" else [every[int(worker)]]


def create(accelerator_type):
    (ROOT / "tpu").write_text("READY")
    for number in range(max(1, int(accelerator_type.partition("-")[2]) // 8)):
        (ROOT / "hosts" / str(number)).mkdir(parents=True)


def remove():
    end_all()
    (ROOT / "tpu").unlink(missing_ok=True)
    shutil.rmtree(ROOT / "hosts", ignore_errors=True)


def end_all():
    """Ends what runs on the hosts."""
    for path in ROOT.glob("hosts/*/cpc_tf_launch/*pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(path.read_text()), signal.SIGKILL)


def fetch(source, target):
    folder = ROOT / "bucket" / source.partition("gs://")[2]
    if planned("fetch") != "ok" or not folder.is_dir():
        return fail(f"{source} does not exist")
    for path in folder.iterdir():
        if path.is_file():
            shutil.copy(path, target)
    return 0


def fail(message):
    print(f"Using what gcloud says first.\nERROR: (gcloud.compute.tpus) {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
