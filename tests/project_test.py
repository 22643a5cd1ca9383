"""What tells of the project agrees: versions, the citation, the table of modules with their cards."""

import json
import re

import cpc_tf
from tests.binaries import ROOT


def read(name):
    return (ROOT / name).read_text()


def megabytes(folder):
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:.1f} MB"


def test_one_version_and_one_date():
    (released, date), *_ = re.findall(
        r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE
    )
    assert released == cpc_tf.__version__
    assert f'\nversion = "{released}"\n' in read("pyproject.toml")
    assert f"\nversion: {released}\ndate-released: {date}\n" in read("CITATION.cff")


def test_the_table_of_modules_is_of_their_cards():
    rows = {line.split("`")[1]: line for line in read("modules/README.md").splitlines() if line.startswith("| [`")}
    folders = [path.parent for path in ROOT.glob("modules/*/encoder.json")]
    others = [path.parent for path in ROOT.glob("modules/*/runtime.json")]
    assert set(rows) == {folder.name for folder in (*folders, *others)}
    for folder in others:
        assert megabytes(folder) in rows[folder.name]
    for folder in folders:
        card, row = json.loads((folder / "encoder.json").read_text()), rows[folder.name]
        for wanted in (
            f"`{card['dataset']}`",
            f"{card['parameters']:,} parameters",
            megabytes(folder),
            f"| {card['feature_dim']:,} |",
            f"| {card['geometry']['image_size']} px |",
        ):
            assert wanted in row, wanted
