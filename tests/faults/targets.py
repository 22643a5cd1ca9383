"""All that the fuzzer attacks, by name."""

from tests.faults import directory_targets, input_targets
from tests.faults.folder_target import Folders

TARGETS = {
    "images": input_targets.Images,
    "annotations": input_targets.Annotations,
    "flags": input_targets.Flags,
    "checkpoints": directory_targets.CheckpointFiles,
    "cards": input_targets.Cards,
    "runs": directory_targets.RunFiles,
    "results": directory_targets.Results,
    "modules": directory_targets.Modules,
    "folders": Folders,
}
