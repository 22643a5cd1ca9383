"""Which runs of the studies are recorded with the settings that they have today; runs nothing.

    python -m experiments.check

'of other settings' is what a study would run anew, and then move to experiments/earlier_results/; 'missing', what was
never run; 'not asked for', records of runs that no study has. Folders are compared by their last part, a module that is
there also by its values, where its record has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from absl import app

from experiments import causes, choices, detection, labels, ladder, policies, records, study

PICTURES, BOXES, MODULE = "../shared/data/imagenette-224", "../shared/data/bccd-voc", "network:modules/imagenette_128px"
WORK = "runs/labels"


def studies() -> dict[str, list[study.Run]]:
    """{name of its file in experiments/results: runs} of all studies, as the documents have them."""
    detected = [*detection.ENCODERS, detection.ADAPTED]
    copies = list(detection.WITH_ITS_NORM)
    adapted = "network:runs/photos_hub"  # the module, adapted to `photos`
    return {
        "causes": [causes.run(rung, PICTURES, "runs/causes", 15, 0) for rung in causes.RUNGS],
        "choices": choices.runs("runs/thirds", "runs/choices", MODULE),
        "detection_bccd-voc": detection.runs("bccd-voc", BOXES, PICTURES, WORK, 1),
        "detection_bccd-voc-128px": detection.runs("bccd-voc-128px", BOXES, PICTURES, WORK, 3, MODULE, detected),
        "detection_collages": detection.runs("collages", "", "", WORK, 3),
        "detection_collages-128px": detection.runs(
            "collages-128px", "", PICTURES, WORK, 3, MODULE, [*detected, *copies]
        ),
        "labels_imagenette-128px": labels.runs("imagenette-128px", PICTURES, WORK, 3, MODULE),
        "labels_imagenette-224": labels.runs("imagenette-224", PICTURES, WORK, 3),
        "labels_photos": labels.runs("photos", "", WORK, 3),
        "labels_photos-128px": labels.runs("photos-128px", "", WORK, 3, adapted),
        "ladder": ladder.runs("runs/ablation", 3),
        "policies": policies.runs("runs/policies", PICTURES, 950, 2),
    }


def table(name: str, runs: Sequence[study.Run], found: Sequence[dict]) -> list[str]:
    """A line of counts, and a line for each record of other settings."""
    kinds: dict[str, list[str]] = {"done": [], "of other settings": [], "missing": []}
    for run in runs:
        record, other = records.standing(run.fields, run.steps, found)
        kind = "done" if record else "of other settings" if other else "missing"
        kinds[kind].append(f"    {', '.join(f'{name}={value}' for name, value in run.fields.items())}: {other}")
    strays = sum(not any(run.fields.items() <= record.items() for run in runs) for record in found)
    counts = [f"{len(lines)} {kind}" for kind, lines in kinds.items()] + [f"{strays} not asked for"]
    return [f"{name}: {', '.join(counts)}", *kinds["of other settings"]]


def main(_) -> None:
    """Prints the lines of all studies."""
    for name, runs in studies().items():
        print("\n".join(table(name, runs, records.read(study.RESULTS / f"{name}.json"))), flush=True)


if __name__ == "__main__":
    app.run(main)
