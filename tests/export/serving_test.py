"""`--format=serving`: versions of a model, and the client of docs/python.md."""

import base64
import http.server
import json
import os
import threading

import numpy as np
import pytest
import tensorflow as tf

from cpc_tf.core.settings import ConfigError
from cpc_tf.export import serving
from cpc_tf.export.config import ExportConfig, RuntimeConfig
from cpc_tf.export.run import export
from tests.binaries import ROOT
from tests.export.conftest import read


@pytest.fixture(scope="module")
def models(colours_module, tmp_path_factory):
    """The folder of two versions of a model."""
    output = str(tmp_path_factory.mktemp("served") / "models/mine")
    runtime = RuntimeConfig(module=colours_module, format="serving")
    for _ in range(2):
        done = export(ExportConfig(output=output, runtime=runtime))
    assert done["summary"] == "version 2; signatures bytes, serving_default"
    return output


@pytest.mark.parametrize("format", ["serving", "savedmodel"])
def test_missing_run_leaves_no_files(tmp_path, format):
    output = f"{tmp_path}/models/mine" + "/1" * (format == "savedmodel")
    with pytest.raises(ConfigError, match=f"--workdir={tmp_path}/nowhere"):
        export(
            ExportConfig(f"{tmp_path}/nowhere", output=output, runtime=RuntimeConfig(format=format))
        )
    assert not [*tmp_path.iterdir()]


def test_versions(models, tmp_path):
    assert sorted(os.listdir(models)) == ["1", "2"]
    assert "blue" in read(models, "2/classifier.json")
    for name in ("3", "10", "11.7.tmp"):
        (tmp_path / name).mkdir()
    assert serving.next_version(str(tmp_path)) == str(tmp_path / "11")
    assert serving.next_version(str(tmp_path / "new")) == str(tmp_path / "new/1")


class Server(http.server.BaseHTTPRequestHandler):
    """Answers by `signatures`, in columns, as https://www.tensorflow.org/tfx/serving/api_rest
    says.
    """

    def do_POST(self):
        assert self.path == "/v1/models/mine:predict"
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        files = [base64.b64decode(each["b64"]) for each in question["inputs"]["encoded"]]
        found = self.server.signatures[question["signature_name"]](encoded=tf.constant(files))
        columns = {
            name: (
                np.char.decode(x.numpy().astype(bytes)).tolist()
                if x.dtype == tf.string
                else x.numpy().tolist()
            )
            for name, x in found.items()
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"outputs": columns}).encode())

    def log_message(self, *_):
        pass


def test_the_client_of_the_page(models, tmp_path, monkeypatch, capsys):
    (code,) = (
        each.partition("```")[0]
        for each in read(ROOT, "docs/python.md").split("```python\n")
        if "URL" in each
    )
    for name, colour in (("cat.jpg", (250, 10, 10)), ("dog.jpg", (10, 10, 250))):
        (tmp_path / name).write_bytes(
            tf.io.encode_jpeg(np.full([30, 40, 3], colour, np.uint8)).numpy()
        )
    monkeypatch.chdir(tmp_path)
    with http.server.HTTPServer(("localhost", 0), Server) as server:
        server.signatures = tf.saved_model.load(f"{models}/2").signatures
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            exec(code.replace("8501", str(server.server_port)), {})
        finally:
            server.shutdown()
            thread.join()
    assert capsys.readouterr().out.startswith("['red', 'blue'] [0.")
