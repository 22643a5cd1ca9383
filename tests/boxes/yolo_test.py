"""YOLO's data.yaml: the names of classes."""

import pytest

from cpc_tf.boxes import yolo


@pytest.mark.parametrize(
    "text",
    [
        "names: [cat, 'big dog', \"it's # 1\"]",
        'nc: 3\nnames:\n- cat\n- big dog\n- "it\'s # 1"\n',
        "names: # three\n  0: cat\n  1: 'big dog'\n\n  2: 'it''s # 1'  # the last",
        "names:\n  [\n    'cat', 'big dog',\n    \"it's # 1\",\n  ]\ntrain: x",
        '\ufeffnames: {0: cat, 1: big dog, 2: "it\'s # 1"}\r\n',
    ],
)
def test_spellings_of_names_in_yaml(tmp_path, text):
    (tmp_path / "data.yaml").write_text(text)
    assert yolo.read_names(str(tmp_path)).names == {0: "cat", 1: "big dog", 2: "it's # 1"}


def test_invalid_yaml_is_refused_only_as_data_yaml(tmp_path, warnings, refused):
    (tmp_path / "data.yaml").write_text("names: [cat")
    assert f"{tmp_path}/data.yaml: cannot be read as YAML: " in refused(
        yolo.read_names, str(tmp_path)
    )
    (tmp_path / "data.yaml").rename(tmp_path / "other.yaml")
    (tmp_path / "classes.txt").write_text("cat\n")
    assert yolo.read_names(str(tmp_path)).names == {0: "cat"}
    assert "other.yaml: is left out, since it cannot be read as YAML" in warnings[0]
