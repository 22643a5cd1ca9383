"""The commands of gcloud that a launch runs: settings -> words of a command line."""

from __future__ import annotations

import shlex

from cpc_tf.launch import archive
from cpc_tf.launch.config import LaunchConfig
from cpc_tf.launch.training import Training

_ARCHIVE = "cpc_tf.tar.gz"  # in the home folder of each host
_FOLDER = "cpc_tf_launch"  # where it is unpacked
_SCRIPT = f"{_FOLDER}/cpc_tf/launch/host.sh"
# One host: its process loads the library of the TPU. A pod: servers on all hosts hold the TPU, the process finds them.
_ONE_HOST = ("NEXT_PLUGGABLE_DEVICE_USE_C_API=true", "TF_PLUGGABLE_DEVICE_LIBRARY_PATH=/lib/libtpu.so")
_POD = ("TPU_NAME={name}", "TPU_LOAD_LIBRARY=0")
_FEED_PORT = 8480
_PACKED = '"$folder/cpc_tf.tar.gz"'  # the archive, in a script
# Notices within two minutes that the connection is lost.
_ALIVE = ("--ssh-flag=-oServerAliveInterval=30", "--ssh-flag=-oServerAliveCountMax=4")


def create(config: LaunchConfig) -> list[str]:
    """Creates the TPU and waits until it is ready."""
    return [
        *_tpu("create", config),
        f"--accelerator-type={config.accelerator_type}",
        f"--version={config.image}",
        *_bought(config),
    ]


def describe(config: LaunchConfig) -> list[str]:
    """Prints the state of the TPU, such as READY."""
    return [*_tpu("describe", config), "--format=value(state)"]


def delete(config: LaunchConfig) -> list[str]:
    """Deletes the TPU."""
    return _tpu("delete", config)


def queue(config: LaunchConfig) -> list[str]:
    """Puts a request for the TPU into the queue."""
    return [
        *_request("create", config),
        f"--node-id={config.name}",
        f"--accelerator-type={config.accelerator_type}",
        f"--runtime-version={config.image}",
        *_bought(config),
    ]


def describe_request(config: LaunchConfig) -> list[str]:
    """Prints the state of the request, such as WAITING_FOR_RESOURCES, and why it failed."""
    return [*_request("describe", config), "--format=value(state.state,state.failedData.error.message)"]


def delete_request(config: LaunchConfig) -> list[str]:
    """Deletes the request, and its TPU with it."""
    return [*_request("delete", config), "--force"]


def ship(config: LaunchConfig, path: str) -> list[str]:
    """Copies the archive to all hosts."""
    words = ["gcloud", "compute", "tpus", "tpu-vm", "scp", path, f"{config.name}:{_ARCHIVE}"]
    return [*words, *_where(config), "--worker=all", *shlex.split(config.ssh_flags)]


def install(config: LaunchConfig) -> list[str]:
    """Unpacks it on all hosts, in place of older code, and installs what it needs."""
    # What a launch before it left there may be readable by others.
    unpack = (
        f"chmod 600 {_ARCHIVE} && mkdir -p {_FOLDER} && rm -rf {_FOLDER}/cpc_tf && tar -xzf {_ARCHIVE} -C {_FOLDER}"
    )
    return _ssh(config, f"{unpack} && bash {_SCRIPT} install", "all")


def feed(config: LaunchConfig) -> list[str]:
    """Starts a feed on each host, and returns once all are ready."""
    return _ssh(config, shlex.join(["bash", _SCRIPT, "feed", str(_FEED_PORT), archive.SECRET]), "all")


def start(config: LaunchConfig, training: Training) -> list[str]:
    """Starts the training on the first host, where it goes on without a connection."""
    variables = [each.format(name=config.name) for each in (_POD if config.is_pod else _ONE_HOST)]
    if training.is_fed:  # by the feed beside each host
        variables += [f"CPC_TF_FEED=:{_FEED_PORT}", f"CPC_TF_FEED_SECRET={archive.SECRET}"]
    train = ["env", "PYTHONUNBUFFERED=1", *variables, "python3", "-m", "cpc_tf", training.task, "--flagfile=run.flags"]
    how = (str(config.restarts), f"{config.pause:g}")
    return _first_host(config, "start", *how, training.task, training.workdir, *train)


def state(config: LaunchConfig) -> list[str]:
    """Prints whether the training runs or has ended; nothing on a new host."""
    return _ssh(config, f"test ! -e {_SCRIPT} || bash {_SCRIPT} state", "0")


def follow(config: LaunchConfig, number: int, offset: int) -> list[str]:
    """Prints the log from byte `offset` on until the training ends. `number` is another one in each call."""
    return [*_first_host(config, "follow", str(number), str(offset), f"{min(1, config.poll):g}"), *_ALIVE]


def stop(config: LaunchConfig, seconds: int) -> list[str]:
    """Ends the training and waits while it saves."""
    return _first_host(config, "stop", str(seconds))


def fetch(training: Training) -> list[str]:
    """Copies the files of the run, but for folders: checkpoints and events stay in the bucket."""
    return ["gcloud", "storage", "rsync", training.workdir, training.local, "--quiet"]


def script(config: LaunchConfig, training: Training) -> str:
    """Returns all commands of a launch where nothing goes wrong, as a script."""
    ready = f"until {shlex.join(describe(config))} | grep -x READY; do sleep {config.poll:g}; done"
    shipped = shlex.join(ship(config, "$folder/cpc_tf.tar.gz")).replace("'$folder/cpc_tf.tar.gz'", _PACKED)
    steps = {
        "Create the TPU": [queue(config) if config.queue else create(config), ready],
        "Pack the code and the settings": archive.script(config, training),
        "Ship them, and install what they need": [shipped, install(config), 'rm -r "$folder"'],
        "Train": [*([feed(config)] * training.is_fed), start(config, training), follow(config, 1, 0), state(config)],
        "Delete the TPU, which costs money until then": [delete_request(config) if config.queue else delete(config)],
        "Bring the result": [["mkdir", "-p", training.local], fetch(training)],
    }
    lines = []
    for title, commands in steps.items():
        lines += [f"# {title}.", *(each if isinstance(each, str) else shlex.join(each) for each in commands)]
    return "\n".join(lines)


def _tpu(verb: str, config: LaunchConfig) -> list[str]:
    return ["gcloud", "compute", "tpus", "tpu-vm", verb, config.name, *_where(config)]


def _request(verb: str, config: LaunchConfig) -> list[str]:
    return ["gcloud", "compute", "tpus", "queued-resources", verb, config.name, *_where(config)]


def _where(config: LaunchConfig) -> list[str]:
    project = [f"--project={config.project}"] if config.project else []
    return [f"--zone={config.zone}", *project, "--quiet"]


def _bought(config: LaunchConfig) -> list[str]:
    return [*(["--spot"] if config.spot else []), *shlex.split(config.create_flags)]


def _ssh(config: LaunchConfig, command: str, worker: str) -> list[str]:
    return [*_tpu("ssh", config), f"--worker={worker}", f"--command={command}", *shlex.split(config.ssh_flags)]


def _first_host(config: LaunchConfig, *words: str) -> list[str]:
    return _ssh(config, shlex.join(["bash", _SCRIPT, *words]), "0")
