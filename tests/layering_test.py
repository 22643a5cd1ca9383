"""The import directions that docs/architecture.md draws, read from the sources."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# Part -> the parts it may import. The lower parts are files (settings, keras, cli), the others packages.
BASE = {
    "settings",
    "keras",
    "cli",
    "registry",
    "files",
    "termination",
    "texts",
    "native",
    "leftovers",
    "cache",
}
SHARED = BASE | {"augment", "data", "encoders", "evaluation", "objectives", "training"}
ALLOWED = {
    "__init__": {"notices"},
    "texts": set(),
    "settings": {"texts"},
    "keras": set(),
    "native": {"cache"},
    "cache": set(),
    "notices": set(),
    "leftovers": set(),
    "cli": {"settings", "termination", "texts"},
    "files": {"settings", "texts"},
    "termination": {"settings"},
    "registry": set(),
    "tasks": BASE | {"training"},
    "augment": BASE,
    "data": BASE | {"augment"},
    "encoders": BASE | {"data"},
    "objectives": BASE | {"data", "encoders"},
    "training": BASE,
    "evaluation": BASE | {"data", "training"},
    "results": SHARED,
    "pretrain": SHARED | {"results"},
    "linear": SHARED | {"results"},
    "efficient": SHARED | {"results"},
    "detect": SHARED | {"results"},
    "report": SHARED | {"results", "tasks"},
    "export": SHARED | {"tasks", "pretrain", "efficient", "detect"},
}
BINARY = set(ALLOWED) - {"export"}


def sources():
    """(path relative to the root, syntax tree) of every module of the package."""
    for path in sorted((ROOT / "cpc_tf").rglob("*.py")):
        yield path.relative_to(ROOT), ast.parse(path.read_text(), str(path))


def imports(tree):
    """Full names of what a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(name):
    """The part of the project that a dotted name belongs to; '' for others' packages, and for `cpc_tf` itself."""
    top, *rest = name.split(".")
    return rest[0] if top == "cpc_tf" and rest else ""


SOURCES = list(sources())
MODULES = [pytest.param(path, tree, id=str(path)) for path, tree in SOURCES]


def own_part(path):
    return part(".".join(path.with_suffix("").parts))


def is_binary(path):
    """A file directly in cpc_tf that is none of the lower parts: show_patches.py."""
    return len(path.parts) == 2 and path.parts[0] == "cpc_tf" and own_part(path) not in {*ALLOWED, "__init__"}


def test_the_parts_are_known():
    packages = {path.parts[1] for path, _ in SOURCES if len(path.parts) > 2}
    assert packages <= set(ALLOWED), "a new package: say in ALLOWED what it may import"
    assert {path.stem for path, _ in SOURCES if is_binary(path)} >= {"show_patches"}


@pytest.mark.parametrize(("path", "tree"), MODULES)
def test_imports_go_one_way(path, tree):
    me = own_part(path)
    allowed = BINARY if is_binary(path) else ALLOWED.get(me, set()) | {me}
    wrong = {name for name in imports(tree) if part(name) and part(name) not in allowed}
    assert not wrong, f"{path} imports {sorted(wrong)}"


@pytest.mark.parametrize(("path", "tree"), MODULES)
def test_only_the_cli_knows_flags(path, tree):
    touched = {name for name in imports(tree) if name.startswith(("absl.flags", "absl.app", "argparse"))}
    assert not touched or own_part(path) == "cli"


@pytest.mark.parametrize(("path", "tree"), MODULES)
def test_addons_are_not_needed(path, tree):
    """Only tests use them, where they can be imported: no TensorFlow after 2.15 is supported by them."""
    assert not any(name.startswith("tensorflow_addons") for name in imports(tree))


@pytest.mark.parametrize(("path", "tree"), MODULES)
def test_keras_comes_from_one_place(path, tree):
    if own_part(path) == "keras":
        return
    named = {name for name in imports(tree) if name.startswith(("tensorflow.keras", "tf_keras", "keras."))}
    used = {
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "keras"
        and isinstance(node.value, ast.Name)
        and node.value.id == "tf"
    }
    assert not named
    assert not used


def test_the_checks_would_notice():
    tree = ast.parse("import tensorflow_addons as tfa\nfrom cpc_tf.evaluation import scores\nfrom absl import flags")
    assert set(imports(tree)) == {"tensorflow_addons", "cpc_tf.evaluation.scores", "absl.flags"}
    assert part("cpc_tf.evaluation.scores") == "evaluation"
    assert part("cpc_tf.export.module") == "export"
    assert part("tensorflow.keras") == ""
    assert is_binary(pathlib.Path("cpc_tf/show_patches.py"))
    assert not is_binary(pathlib.Path("cpc_tf/cli.py"))
