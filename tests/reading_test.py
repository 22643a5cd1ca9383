"""What a reader must carry, counted: `python -m tests.reading_test` prints it (docs/notebook/2026-11-27-light.md).

Counts may fall. Whoever makes one rise past its bound says in docs/decisions.md what the reader gets for it.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
STARTS = ("cpc_tf.pretrain.run", "cpc_tf.linear.run")
BOUNDS = {
    "files imported by pretrain.run and linear.run": 76,
    "lines imported by pretrain.run and linear.run": 13_750,
    "private helpers of a module used once": 197,
    "lines of cpc_tf and export": 33_500,
    "lines of tests": 25_700,
}


def sources(*folders):
    """{dotted name: text} of the modules below these folders."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    names = (".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths)
    return {name: path.read_text() for name, path in zip(names, paths)}


def imported_at_once(tree):
    """Names that a module imports as it is imported itself: not inside functions, not for type checkers."""
    pending = [*tree.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, (ast.If, ast.Try, ast.With, ast.ClassDef)) and "TYPE_CHECKING" not in ast.dump(node)[:80]:
            pending += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


def closure(modules, starts):
    """All modules that these import, with them, directly or through others."""
    reached, pending = set(), [*starts]
    while pending:
        name = pending.pop()
        if name in modules and name not in reached:
            reached.add(name)
            pending += [".".join(name.split(".")[:i]) for i in range(1, name.count(".") + 1)]  # its packages
            pending += imported_at_once(ast.parse(modules[name]))
    return reached


def used_once(text):
    """Private functions of a module, at its top, whose name stands in it once more."""
    functions = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return [name for name in functions if name.startswith("_") and len(re.findall(rf"\b{name}\b", text)) == 2]


def counts():
    modules, lines = sources("cpc_tf", "export"), lambda texts: sum(text.count("\n") for text in texts)
    reached = closure(modules, STARTS)
    return dict(
        zip(
            BOUNDS,
            (
                len(reached),
                lines(modules[name] for name in reached),
                sum(len(used_once(text)) for text in modules.values()),
                lines(modules.values()),
                lines(sources("tests").values()),
            ),
        )
    )


@pytest.mark.parametrize(("what", "count"), counts().items(), ids=lambda x: str(x).replace(" ", "_"))
def test_a_reader_carries_no_more(what, count):
    assert count <= BOUNDS[what]


if __name__ == "__main__":
    for what, count in counts().items():
        print(f"{what:50}{count:8,}")
