"""Stands for an export that fails: prints a reason and ends with status 1."""

print("the reason")
raise SystemExit(1)
