"""The import directions that docs/extending.md draws, read from the sources."""

import ast
import functools
import graphlib
import re

import pytest

from tests.binaries import ROOT

# Part -> the parts it may import. `core` is below all; its own files import one another without a
# circle.
SHARED = {"core", "augment", "data", "encoders", "evaluation", "objectives", "training"}
ALLOWED = {
    "__init__": set(),  # use.api when it is used
    "__main__": {"core"},
    "core": set(),
    "augment": {"core"},
    "data": {"core", "augment"},
    "boxes": {"core", "data"},
    "encoders": {"core", "augment", "data", "evaluation"},
    "objectives": {"core", "data", "encoders"},
    "training": {"core"},
    "evaluation": {"core", "data", "training"},
    "drawing": SHARED,
    "pretrain": SHARED | {"drawing"},
    "linear": SHARED | {"drawing"},
    "classify": SHARED | {"drawing"},
    "efficient": SHARED | {"drawing"},
    "detect": SHARED | {"drawing", "boxes"},
    "label": SHARED | {"classify", "drawing"},
    "compare": SHARED | {"classify", "drawing", "pretrain"},
    "report": SHARED | {"drawing", "pretrain", "linear", "efficient", "detect"},
    "export": SHARED | {"boxes", "classify", "pretrain", "linear", "efficient", "detect"},
    "use": (
        SHARED
        | {"drawing", "boxes", "detect", "classify", "pretrain", "linear", "efficient", "export"}
    ),
}
BINARY = set(ALLOWED) - {"export"}


@functools.cache
def parsed(path):
    """The syntax tree, by the oldest Python that we run with."""
    return ast.parse(path.read_text(), str(path), feature_version=(3, 9))


def sources():
    """(path relative to the root, syntax tree) of every module of the package."""
    package = {*(ROOT / "cpc_tf").rglob("*.py"), *(ROOT / "cpc_tf/export").glob("*.py")}
    return [(path.relative_to(ROOT), parsed(path)) for path in sorted(package)]


def imports(tree):
    """Full names of what a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules():
    """{full name: syntax tree} of every module of the package."""
    return {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): tree
        for path, tree in sources()
    }


def imported_at_the_top(tree):
    """Full names of what a module imports as it is imported itself; not those for type checkers
    alone.
    """
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imports(ast.Module([node], []))


def closure(name):
    """The modules of ours that the import of one imports, itself included."""
    files, loaded, waiting = modules(), set(), [name]
    while waiting:
        name = waiting.pop()
        if name not in files:  # an attribute of a module
            name = name.rpartition(".")[0]
        if name in files and name not in loaded:
            loaded.add(name)
            waiting += [*imported_at_the_top(files[name]), name.rpartition(".")[0]]
    return loaded


def part(name):
    """The part of the project that a dotted name belongs to; '' for others' packages, and for
    `cpc_tf` itself.
    """
    top, *rest = name.split(".")
    return rest[0] if top == "cpc_tf" and rest else ""


def own_part(path):
    return part(".".join(path.with_suffix("").parts))


def is_binary(path):
    """A program: `__main__` of a command, or a file directly in cpc_tf that is none of the lower
    parts.
    """
    return path.name == "__main__.py" or (
        len(path.parts) == 2
        and path.parts[0] == "cpc_tf"
        and own_part(path) not in {*ALLOWED, "__init__"}
    )


def test_the_parts_are_known():
    packages = {path.parts[1] for path, _ in sources() if len(path.parts) > 2}
    assert packages <= set(ALLOWED), "a new package: say in ALLOWED what it may import"


def test_imports_go_one_way():
    for path, tree in sources():
        me = own_part(path)
        allowed = BINARY if is_binary(path) else ALLOWED.get(me, set()) | {me}
        wrong = {name for name in imports(tree) if part(name) and part(name) not in allowed}
        assert not wrong, f"{path} imports {sorted(wrong)}"


def test_training_loads_neither_drawing_nor_report():
    """They are imported in the function that draws: Matplotlib and jinja2 wait until they are asked
    for.
    """
    files = modules()
    for command in ("pretrain", "linear", "efficient"):
        for name in closure(f"cpc_tf.{command}.run"):
            tops = {full.split(".")[0] for full in imported_at_the_top(files[name])}
            assert not tops & {"matplotlib", "jinja2"}, name
            assert part(name) not in ("drawing", "report"), name


def test_no_file_imports_itself_around_a_circle():
    """Folders of a package, too: each file can be read after those that it imports."""
    files = modules()
    edges = {
        name: (
            {full if full in files else full.rpartition(".")[0] for full in imports(tree)}
            & set(files) - {name}
        )
        for name, tree in files.items()
    }
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError, which names the circle


# Module -> the files of cpc_tf that may import it.
ONLY_IN = {
    "absl.flags": "cli.py",
    "absl.app": "cli.py",
    "argparse": "",
    "tensorflow_addons": "",  # for tests; TensorFlow after 2.15 has none
    "tensorflow.keras": "",
    "tf.keras": "keras.py",
    "tf_keras": "keras.py",
    "fcntl": "locks.py",
    # Keras 3: what writes a model, and what runs in a process of its own
    "keras": "formats.py check.py keras_hub_export.py",
}


def test_some_modules_have_one_place():
    found = {module: set() for module in ONLY_IN}
    for path, tree in sources():
        names = [f"{name}." for name in imports(tree)]
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
        names += ["tf.keras." for node in attributes if ast.unparse(node) == "tf.keras"]
        for module in ONLY_IN:
            if any(name.startswith(f"{module}.") for name in names):
                found[module].add(path.name)
    assert found == {module: set(files.split()) for module, files in ONLY_IN.items()}


@pytest.mark.slow
def test_no_file_needs_a_later_python():
    """Python 3.9 lacks zip(strict=), which ends a program only when it gets there; no linter of
    ours finds it.
    """
    folders = ("benchmarks", "cpc_tf", "studies", "website", "tests")
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(found) > 100
    for path in found:
        for node in ast.walk(parsed(path)) if re.search(r"strict\s*=", path.read_text()) else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip":
                assert not node.keywords, f"{path}:{node.lineno}: zip(strict=) needs Python 3.10"
