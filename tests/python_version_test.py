"""What Python 3.9, the oldest that is supported, does not have and no linter of ours finds."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).parent.parent


def test_no_file_needs_a_later_python():
    """Syntax, and zip(strict=), which ends a program only when it gets there."""
    found = [path for folder in ("benchmarks", "cpc_tf", "studies", "export", "tests")
             for path in sorted((ROOT / folder).rglob("*.py"))]  # fmt: skip
    assert len(found) > 100
    for path in found:
        for node in ast.walk(ast.parse(path.read_text(), str(path), feature_version=(3, 9))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "zip":
                assert not node.keywords, f"{path}:{node.lineno}: zip(strict=) needs Python 3.10"
