"""Trains on a Cloud TPU and brings the result, by a shell script of `gcloud` that it fills and runs.

    cpc-tf launch --zone=europe-west4-a --accelerator_type=v3-8 --spot -- pretrain \\
      --preset=imagenet/pretrain_resnet50 --data_dir=gs://my-bucket/data --workdir=gs://my-bucket/runs/in/r50/pretrain

What follows `--` is a command of cpc-tf. --dry_run prints the script, --script=FILE writes it, and --format=skypilot
makes a task of SkyPilot in its place. The exit status is that of the training, or 7 if the TPU could not be deleted.
The same command goes on with a TPU and a run that are there; docs/tpu.md tells more.
"""

from __future__ import annotations

import dataclasses
import re
import shlex

from cpc_tf.core.settings import ConfigError, Settings, count, setting
from cpc_tf.core.texts import shown

# Kind of TPU -> how many of the units in the second part of --accelerator_type are one device of TensorFlow: v2 and v3
# are counted in cores, each a device; v4 and v5p in cores, two of which are a device; the others in chips.
KINDS = {"v2": 1, "v3": 1, "v4": 2, "v5p": 2, "v5litepod": 1, "v6e": 1}
_ONE_HOST = 8  # units of the largest TPU with one host, whatever its kind
_TENSORFLOW = "2.15.0"  # of the default image


@dataclasses.dataclass(frozen=True)
class LaunchConfig(Settings):
    """The settings of `cpc-tf launch` before the `--`."""

    name: str = setting(
        "", "Name of the TPU; empty: one made of --workdir, so that the same run finds it again"
    )
    zone: str = setting(
        "",
        "Zone of the TPU, e.g. europe-west4-a; the bucket is best in its region",
        needed="the zone of the TPU, e.g. --zone=europe-west4-a",
    )
    accelerator_type: str = setting(
        "v3-8",
        "Kind and size of the TPU, e.g. v3-8, v4-32, v5litepod-16; with --format=skypilot also GPUs, e.g. A100:8",
    )
    project: str = setting("", "Google Cloud project; empty: that of `gcloud config`")
    version: str = setting(
        "", "Image of the TPU's hosts, with TensorFlow 2.15; empty: Google's for this size"
    )
    spot: bool = setting(
        False, "Spot TPU: cheaper, but preempted at any time; then the launch creates another"
    )
    queue: bool = setting(
        False, "Ask for the TPU in Google's queue (queued resources) instead of again and again"
    )
    create_flags: str = setting(
        "", "Further flags of gcloud for the creation, e.g. '--network=mine --reserved'"
    )
    ssh_flags: str = setting("", "Further flags of gcloud's ssh and scp, e.g. '--internal-ip'")
    output: str = setting(
        "", "Folder of this machine for the result; empty: the path of --workdir inside its bucket"
    )
    poll: float = setting(
        30.0, "Time between two questions to gcloud", unit="seconds", above=0, maximum=3600
    )
    restarts: int = count(
        5,
        "Most restarts of a training that ends with an error within an hour of its start",
        minimum=0,
        maximum=1000,
    )
    format: str = setting(
        "gcloud",
        "A script of gcloud's commands, or a task for SkyPilot, which is printed",
        choices=("gcloud", "skypilot"),
    )
    dry_run: bool = setting(False, "Print the script in place of running it")
    script: str = setting("", "File to write the script or the task to, in place of running it")

    def check(self):
        if self.name and not re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", self.name):
            raise ConfigError(
                "name", shown(self.name), "must be small letters, digits and '-', a letter first"
            )
        if self.zone and not re.fullmatch(r"[a-z]+-[a-z]+[0-9]+-[a-z]+", self.zone):
            raise ConfigError("zone", shown(self.zone), "must be a zone, e.g. europe-west4-a")
        flag = f"--accelerator_type={shown(self.accelerator_type)}"
        if self.format == "skypilot" and self.is_tpu and self.is_pod:
            raise ConfigError(
                f"{flag}: has several hosts, for which only --format=gcloud starts what they need"
            )
        gpus = self.format == "skypilot" and re.fullmatch(
            r"[A-Z][\w-]*(:[1-9][0-9]?)?", self.accelerator_type
        )
        if not (self.is_tpu or gpus):
            raise ConfigError(
                f"{flag}: must be one of {', '.join(KINDS)} with a size, e.g. v3-8, or with --format=skypilot GPUs, "
                "e.g. A100:8"
            )
        if not re.search(r"tf-2\.15\.\d+", self.image):
            raise ConfigError(
                "version",
                shown(self.version),
                "must be an image with TensorFlow 2.15, e.g. tpu-vm-tf-2.15.0-pjrt",
            )
        for name in ("create_flags", "ssh_flags"):
            try:
                shlex.split(getattr(self, name))
            except ValueError as error:
                raise ConfigError(name, shown(getattr(self, name)), f"{error}") from error

    def check_complete(self) -> None:
        if self.format == "gcloud":  # SkyPilot finds a zone
            super().check_complete()

    @property
    def is_tpu(self) -> bool:
        """Whether this is a TPU, else GPUs."""
        kind, _, units = self.accelerator_type.partition("-")
        return kind in KINDS and bool(re.fullmatch(r"[1-9][0-9]{0,4}", units))

    @property
    def is_pod(self) -> bool:
        """Whether this is a TPU with several hosts."""
        return self.is_tpu and int(self.accelerator_type.partition("-")[2]) > _ONE_HOST

    @property
    def devices(self) -> int:
        """Devices of TensorFlow, each with a replica of the training; of GPUs as many as divide the batch are used."""
        kind, _, units = self.accelerator_type.partition("-")
        return max(1, int(units) // KINDS[kind]) if self.is_tpu else 1

    @property
    def image(self) -> str:
        """Image of the hosts."""
        return self.version or f"tpu-vm-tf-{_TENSORFLOW}{'-pod' if self.is_pod else ''}-pjrt"

    @property
    def tensorflow(self) -> str:
        """Version of TensorFlow in the image."""
        return re.search(r"tf-(2\.15\.\d+)", self.image)[1]
