"""Compares objectives on your own images: which one learns the best encoder in equal time?

    cpc-tf compare --pictures=my_pictures --minutes=20 --workdir=runs/compare --dry_run
    cpc-tf compare --pictures=my_pictures --minutes=20 --workdir=runs/compare \\
      --objectives=cpc,byol,rotation

Every objective trains the same network from random weights for the same time, twice: by its paper's
setting, and by one for short runs. What counts is the trial whose features have the better nearest
neighbours on a third of the labelled images; all figures are of the others. The released encoder,
an untrained network and pixels stand beside them. The workdir gets comparison.md, comparison.png,
result.json, and of each training its run and its module. The same command resumes an interrupted
comparison; with more objectives it goes on.
"""

from __future__ import annotations

import dataclasses

from cpc_tf.compare.methods import ENCODERS, METHODS, TRIALS
from cpc_tf.core.settings import ConfigError, Settings, count, setting

ALL = "all"


@dataclasses.dataclass(frozen=True)
class CompareConfig(Settings):
    """What is compared, and on which images."""

    pictures: str = setting(
        "",
        "Folder of your images: one subfolder for each class, or any folder with --labels. All"
        " train the encoders, without their labels; those with labels test them",
        needed="a folder of images with a subfolder for each class, e.g. --pictures=my_pictures",
    )
    labels: str = setting(
        "",
        "CSV file with the classes of the images in --pictures, in lines such as 1.jpg,cat; a blank"
        " is no label. Images with the same text in a column named group are never on both sides of"
        " a test",
    )
    objectives: str = setting(
        "cpc,instance,moco,byol,vicreg,rotation",
        f"Objectives to compare, separated by commas, or '{ALL}': {', '.join(METHODS)}",
        free_on_resume=True,
    )
    minutes: float = setting(
        20.0,
        "Time of each training run on this machine",
        unit="minutes",
        above=0,
        maximum=1e6,
    )
    trials: int = setting(
        len(TRIALS),
        "Training runs of each objective. 2: by its paper's setting and by one for short"
        " runs, of which the better one counts; 1: by the one for short runs",
        choices=(1, 2),
        free_on_resume=True,
    )
    image_size: int = setting(
        64,
        "Side of the images: 64 has the encoder small, 128 the encoder base, which takes four times"
        " as long",
        unit="px",
        choices=tuple(ENCODERS),
    )
    seed: int = count(0, "Seed of the training runs and of the draws of labels", minimum=0)
    workdir: str = setting(
        "",
        "Directory of the comparison; one that is in it is resumed",
        path=True,
        free_on_resume=True,
        needed="a directory for the comparison, e.g. --workdir=runs/compare",
    )
    dry_run: bool = setting(
        False, "Only say what would be trained and how long it would take", free_on_resume=True
    )

    def check(self):
        unknown = [name for name in self.names if name not in METHODS]
        if unknown or len(set(self.names)) < len(self.names):
            raise ConfigError(
                "objectives",
                self.objectives,
                f"must be objectives, each once, separated by commas, or {ALL}:"
                f" {', '.join(METHODS)}",
            )

    @property
    def names(self) -> list[str]:
        """The objectives to compare."""
        if self.objectives == ALL:
            return [*METHODS]
        return [name.strip() for name in self.objectives.split(",")]

    @property
    def chosen_trials(self) -> list[str]:
        """The trials of each objective, that for short runs last."""
        return [*TRIALS[-self.trials :]]
