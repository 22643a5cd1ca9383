"""`--format=huggingface` and `--format=kaggle`: the module as it is, and metadata that the sites'
tools read.
"""

import filecmp
import json

import pytest
import yaml

from cpc_tf.core.settings import ConfigError
from cpc_tf.export.config import ExportConfig, RuntimeConfig
from cpc_tf.export.run import export
from tests.binaries import ROOT

RELEASED = ROOT / "modules/imagenette_128px"
FILES = ("saved_model.pb", "encoder.json", "variables/variables.index")


def test_a_module_of_someone_else_is_refused(tmp_path):
    (tmp_path / "module").mkdir()
    runtime = RuntimeConfig(module=str(tmp_path / "module"), format="huggingface")
    with pytest.raises(
        ConfigError, match="is not a module of `cpc-tf export`: none of encoder.json"
    ):
        export(ExportConfig(output=str(tmp_path / "new"), runtime=runtime))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("format", ["huggingface", "kaggle"])
def test_a_module_with_the_metadata_of_a_site(format, tmp_path):
    output = tmp_path / "My_Encoder"
    runtime = RuntimeConfig(module="imagenette_128px", format=format)
    summary = export(ExportConfig(output=str(output), runtime=runtime))["summary"]
    tool = {
        "huggingface": "hf upload OWNER/My_Encoder",
        "kaggle": "kaggle models variations create -p",
    }
    assert f"{tool[format]} {output}" in summary
    module = output if format == "huggingface" else output / "tensorFlow2"
    assert filecmp.cmpfiles(RELEASED, module, FILES, shallow=False)[0] == [*FILES]
    readme = (RELEASED / "README.md").read_text()
    if format == "huggingface":
        _, head, text = (output / "README.md").read_text().split("---\n", 2)
        assert text.strip() == readme.strip()
        assert yaml.safe_load(head)["pipeline_tag"] == "image-feature-extraction"
        return
    model = json.loads((output / "model-metadata.json").read_text())
    about = json.loads((module / "model-instance-metadata.json").read_text())
    assert model["slug"] == about["modelSlug"] == "my-encoder"
    assert (about["framework"], about["fineTunable"]) == ("tensorFlow2", True)
    assert about["usage"] in readme
