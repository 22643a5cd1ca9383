"""Does the runs of a study that are not recorded yet, or lists what is recorded.

    # Of all studies: done, of other settings, missing; nothing is run.
    python -m studies
    python -m studies ladder
    python -m studies label_curve --only=dataset=photos --only=features=pixels
    # The fields and commands of each run that would be run; nothing is run.
    python -m studies ladder --dry_run
    # Runs of the paper's rows: studies/paper/command.py.
    python -m studies paper --table=2 --dry_run

Each study is a folder here; its README.md says what was asked and what the answer was.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl import app, flags

from cpc_tf.core.settings import ConfigError
from studies import records, runner
from studies.paper import command as rows_of_paper
from studies.runner import Places, Run


def status(study: str, runs: Sequence[Run], found: Sequence[dict]) -> list[str]:
    """A line of counts, and a line for each record of other settings, which a run today would
    replace.
    """
    kinds: dict[str, list[str]] = {"done": [], "of other settings": [], "missing": []}
    for run in runs:
        record, other = records.find(run.fields, run.steps, found)
        kind = "done" if record else "of other settings" if other else "missing"
        kinds[kind].append(f"    {runner.text(run)}: {other}")
    strays = sum(not any(run.fields.items() <= record.items() for run in runs) for record in found)
    counts = [f"{len(lines)} {kind}" for kind, lines in kinds.items()] + [f"{strays} of no run"]
    return [f"{study}: {', '.join(counts)}", *kinds["of other settings"]]


def main(argv: Sequence[str]) -> None:
    """Prints the state of all studies, or does one and prints its table."""
    given = flags.FLAGS
    places = Places(
        work=given.work,
        pictures=given.pictures,
        boxes=given.boxes,
        drawings=given.drawings,
        lite0=given.lite0,
        minutes=given.minutes,
    )
    if not argv[1:]:
        for name in runner.STUDIES:
            print(
                "\n".join(status(name, runner.load(name).runs(places), records.read(name))),
                flush=True,
            )
        return
    if argv[1] == "paper":
        try:
            rows_of_paper.main(
                given.table, given.row, given.work, given.seeds, given.also, given.dry_run
            )
        except ConfigError as error:
            sys.exit(f"error: {error}")
        return
    if argv[1] not in runner.STUDIES:
        sys.exit(f"'{argv[1]}' is not a study; choose one of {', '.join(runner.STUDIES)}, paper")
    study = runner.load(argv[1])
    wanted = dict(part.partition("=")[::2] for part in given.only)
    if hasattr(study, "prepare") and not given.dry_run:
        study.prepare(places, wanted)

    def chosen() -> list[Run]:
        return [
            run
            for run in study.runs(places)
            if wanted.items() <= {k: str(v) for k, v in run.fields.items()}.items()
        ]

    runs = chosen()
    done = 0
    if not runs:
        fields = ", ".join(study.runs(places)[0].fields)
        sys.exit(f"--only={' '.join(given.only)}: no run of {argv[1]} has these; fields: {fields}")
    if given.dry_run:
        print(runner.listing(argv[1], runs))
        return
    if wrong := runner.absent(places, [run for run, _ in runner.missing(argv[1], runs)]):
        sys.exit(f"error: {wrong}")
    while len(runs) > done:  # the records of these may ask for more
        done = len(runs)
        found = runner.carry_out(argv[1], runs, given.cores, getattr(study, "keep", None))
        runs = chosen()
    print(study.table(found))


if __name__ == "__main__":
    flags.DEFINE_string("work", Places().work, "folder of the runs")
    flags.DEFINE_string(
        "pictures", Places().pictures, "folder of imagenette-224: train/CLASS and val/CLASS"
    )
    flags.DEFINE_string("boxes", Places().boxes, "folder of bccd-voc")
    flags.DEFINE_string("drawings", Places().drawings, "folder of Debian's openclipart-png")
    flags.DEFINE_string(
        "lite0", Places().lite0, "folder of EfficientNet-Lite0 as a SavedModel, for encoders"
    )
    flags.DEFINE_float(
        "minutes", Places().minutes, "time of each objective on one core, for objectives"
    )
    flags.DEFINE_multi_string(
        "only", [], "FIELD=VALUE: only runs whose record has it; may be repeated"
    )
    flags.DEFINE_integer(
        "cores", 0, "runs at a time; 0: one per GPU, or one per core where there is no GPU"
    )
    flags.DEFINE_string("table", "", f"of `paper`: {', '.join(rows_of_paper.TABLES)}")
    flags.DEFINE_string("row", "", "of `paper`: name of a row, or part of a name")
    flags.DEFINE_integer(
        "seeds", 1, "of `paper`: runs of each row, each with its own encoder", lower_bound=1
    )
    flags.DEFINE_multi_string(
        "also",
        [],
        "of `paper`: a flag of all trainings, --data_dir=x, or pretrain:--batch_size=256",
    )
    flags.DEFINE_bool(
        "dry_run", False, "list what would be run, of `paper` with the cost, and run nothing"
    )
    app.run(main)
