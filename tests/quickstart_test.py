"""docs/quickstart.ipynb runs, on its example and on images that were uploaded."""

import csv
import importlib.util
import shutil

import pytest

from tests.binaries import ROOT
from tests.samples import write_pictures

# Python 3.9 has none
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")
NOTEBOOK = ROOT / "docs/quickstart.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, 4)


def run(notebook, folder, monkeypatch):
    """Runs a notebook in a folder; returns what it printed."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=600, resources=resources).execute()
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    return "".join("".join(output.get("text", ())) for output in outputs)


@pytest.mark.slow
def test_the_example_ends_with_its_sheet(notebook, tmp_path, monkeypatch):
    printed = run(notebook, tmp_path, monkeypatch)
    assert "cpc-tf 0." in printed
    assert "160 images of 8 classes" in printed
    assert "24 images are in predictions.csv" in printed
    sheets = [
        output
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert len(sheets) == 1
    assert (tmp_path / "classifier.zip").exists()


@pytest.mark.slow
def test_uploaded_archives_and_a_table_are_classified(notebook, tmp_path, monkeypatch):
    write_pictures(tmp_path / "made", {"train": 6})
    rows = [("file", "label")]
    (tmp_path / "upload/my_images").mkdir(parents=True)
    (tmp_path / "upload/__MACOSX").mkdir()
    for path in sorted((tmp_path / "made/train").glob("*/*")):
        rows.append((f"{path.parent.name}_{path.name}", path.parent.name))
        shutil.copy(path, tmp_path / "upload/my_images" / rows[-1][0])
    with open(tmp_path / "labels.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    shutil.make_archive(tmp_path / "my_images", "zip", tmp_path / "upload")
    shutil.make_archive(tmp_path / "new_images", "zip", tmp_path / "upload/my_images")
    names = {"IMAGES": "my_images.zip", "LABELS": "labels.csv", "NEW": "new_images.zip"}
    for cell in notebook["cells"]:
        for name, value in names.items():
            cell["source"] = cell["source"].replace(f'{name} = ""', f'{name} = "{value}"')
    assert "18 images are in predictions.csv" in run(notebook, tmp_path, monkeypatch)
    with open(tmp_path / "predictions.csv", newline="") as file:
        predicted = {row["file"]: row["label"] for row in csv.DictReader(file)}
    assert predicted == dict(rows[1:])


@pytest.mark.parametrize("uploaded", ["cpc_tf-0.1.0-py3-none-any.whl", ""])
def test_the_first_cell_installs_an_uploaded_wheel(notebook, tmp_path, monkeypatch, uploaded):
    cell = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code = cell["source"].replace("%pip install --quiet {wheel}", "installed.append(wheel)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    if uploaded:
        (tmp_path / uploaded).touch()
        installed = []
        exec(code, {"installed": installed})
        assert installed == [uploaded]
    else:
        with pytest.raises(FileNotFoundError, match="upload the wheel"):
            exec(code, {})
