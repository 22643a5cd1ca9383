"""Workflows and forms of issues. GitHub alone runs them; what they name is here."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
import yaml

import cpc_tf
from cpc_tf.core.commands import COMMANDS
from tests.binaries import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))


def content(path):
    return yaml.safe_load(path.read_text())


def steps(path):
    return [step for job in content(path)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_scripts_that_exist(path):
    assert {"name", True, "jobs", "permissions"} <= content(path).keys()  # True: YAML 1.1's "on"
    scripts = re.findall(r"^\.\S+", "\n".join(step.get("run", "") for step in steps(path)), re.M)
    assert scripts
    for script in scripts:
        assert os.access(ROOT / script, os.X_OK), script
        subprocess.run(["bash", "-n", ROOT / script], check=True)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_githubs_by_major_version(path):
    for step in steps(path):
        assert ("run" in step) != ("uses" in step), step
        assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1"))


def test_ci_has_a_python_for_each_environment():
    (versions,) = [
        step["with"]["python-version"].split()
        for step in steps(GITHUB / "workflows/ci.yml")
        if "setup-python" in step.get("uses", "")
    ]
    assert len(versions) == 2
    script = (ROOT / "setup.sh").read_text()
    for environment, version in zip(("classic", "current"), versions):
        pattern = rf":{re.escape(version)}[^)]*\) echo {environment} "
        assert re.search(pattern, script.replace(" | :", "|:").replace(" | ", "|")), version


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_of_issues_is_one(path):
    form = content(path)
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_a_bug_asks_for_commands_that_exist():
    asked = {
        word
        for field in content(GITHUB / "ISSUE_TEMPLATE/bug.yml")["body"]
        for word in re.findall(r"`cpc-tf (\S+?)`", field["attributes"]["label"])
    }
    assert asked == {"--version", "data"}
    assert "data" in COMMANDS


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made of a commit")
def test_a_release_has_its_files_and_address(tmp_path):
    # a clone, since the script writes into dist/ of its checkout
    subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, tmp_path / "clone"], check=True)
    done = subprocess.run(
        [".ci/release", f"v{cpc_tf.__version__}", "https://example.org/issues"],
        cwd=tmp_path / "clone",
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    dist = tmp_path / "clone/dist"
    (wheel,) = dist.glob("cpc_tf-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        assert "Project-URL: Issues, https://example.org/issues" in archive.read(metadata).decode()
    modules = {path.parent.name for path in (ROOT / "modules").glob("*/README.md")}
    assert {path.name.removesuffix(".tar.gz") for path in dist.glob("*.tar.gz")} == {
        *modules,
        f"cpc_tf-{cpc_tf.__version__}",
    }
    with tarfile.open(dist / "imagenette_128px.tar.gz") as archive:
        assert "./saved_model.pb" in archive.getnames()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=True)
    assert "The first release" in (dist / "notes.md").read_text()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is made of a commit")
def test_a_release_of_another_version_is_refused():
    done = subprocess.run(
        [ROOT / ".ci/release", "v99.0.0", "x"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "v99.0.0" in done.stderr
