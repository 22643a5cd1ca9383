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


def test_the_citation_has_what_its_format_needs_and_cites_the_paper():
    text = read("CITATION.cff")
    keys = re.findall(r"^([\w-]+):", text, re.MULTILINE)
    assert {"cff-version", "message", "title", "authors", "type", "license", "preferred-citation"} <= set(keys)
    assert len(keys) == len(set(keys))
    # Plain YAML: a value with ': ' or ' #' in it would need quotes.
    for line in text.splitlines():
        assert re.fullmatch(r" *(- )?([\w-]+:)?( ?[^:#\"'\[\]{}]+)?", line), line
    title, year = (
        re.search(r"title\s+= \{(.*)\}", read("README.md"))[1],
        re.search(r"year += \{(\d+)\}", read("README.md"))[1],
    )
    assert f"  title: {title}\n" in text
    assert f"  year: {year}\n" in text
    assert text.count("family-names:") == 7


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
    # The released module's figures are those of the README's summary.
    summary = read("README.md").partition("## Results")[2]
    for figure in re.findall(r"[\d.]+(?: ± [\d.]+)?(?= %)", rows["imagenette_128px"].replace("1 % of", "")):
        assert f"| {figure}" in summary, figure
