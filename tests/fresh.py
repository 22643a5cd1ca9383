"""Runs the code that pages show to people who have nothing yet: `python -m tests.fresh [PYTHON]`, a
part of CI.

Each Python block of a page runs in an empty environment with what the `pip install` line before it
names, and nothing else. The versions are those of today: this finds out when a new release breaks a
page.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from tests.binaries import ROOT
from tests.samples import write_pictures

MODULE = "modules/imagenette_128px"
PAGES = ("README.md", "docs/install.md", "modules/README.md", f"{MODULE}/README.md")
# What a page installs for its code, as a block or in a sentence, and the code.
_LINES = re.compile(
    r"(?P<pip>pip install tensorflow[^`\n]*)|```python\n(?P<code>.*?)```", re.DOTALL
)


def blocks(text):
    """(pip line, code) of each Python block of a page."""
    found, line = [], None
    for match in _LINES.finditer(text):
        line = match["pip"] or line
        if match["code"]:
            found.append((line, match["code"].replace("path/to/this/directory", MODULE)))
    return found


def main(python=sys.executable):
    """Prints a line for each block. Raises CalledProcessError if one fails."""
    environments = {}
    with tempfile.TemporaryDirectory(prefix="cpc_tf_fresh_") as room:
        room = pathlib.Path(room)
        for page in PAGES:
            for place, (line, code) in enumerate(blocks((ROOT / page).read_text())):
                if line not in environments:
                    environments[line] = environment(
                        room / f"venv{len(environments)}", python, line
                    )
                run(room / f"{page.replace('/', '_')}{place}", environments[line], code)
                print(f"{page}, block {place + 1}: runs after {line}", flush=True)


def environment(folder, python, line):
    """Makes an environment by the line of a page; returns its interpreter."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    subprocess.run(
        f'. "{folder}/bin/activate" && {line} --quiet --disable-pip-version-check',
        shell=True,
        check=True,
    )
    return folder / "bin/python"


def run(folder, python, code):
    """Runs code where its reader would: beside the modules and their images."""
    write_pictures(folder / "my_pictures", {"train": 4}, side=40)
    shutil.copy(folder / "my_pictures/train/red/0.png", folder / "my_pictures/cat.jpg")
    (folder / "modules").symlink_to(ROOT / "modules")
    (folder / "runs/mine/small").mkdir(parents=True)
    (folder / "runs/mine/small/hub").symlink_to(ROOT / MODULE)
    hidden = ("PYTHONPATH", "TF_USE_LEGACY_KERAS", "KERAS_BACKEND")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env=kept, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{code}\n{done.stderr}")


if __name__ == "__main__":
    main(*sys.argv[1:])
