"""docs/quickstart.ipynb runs."""

import pytest
import tensorflow as tf

from cpc_tf.core.keras import keras
from tests.binaries import ROOT

NOTEBOOK = ROOT / "docs/quickstart.ipynb"


@pytest.mark.slow
@pytest.mark.skipif(keras is tf.keras, reason="runs in the current environment")
def test_it_runs(tmp_path, monkeypatch):
    import nbclient
    import nbformat

    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(NOTEBOOK, 4)
    for cell in notebook["cells"]:
        cell["source"] = (
            cell["source"]
            .replace("steps=400", "steps=100")
            .replace("probe_every=200", "probe_every=50")
        )
    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", ())]
    texts = "".join("".join(output.get("text", ())) for output in outputs)
    for wanted in ("100/100", "has the same label", "test accuracy:", "frozen "):
        assert wanted in texts, texts
