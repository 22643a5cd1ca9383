"""What pyproject.toml cannot say: flags/ is installed as cpc_tf/flags, the encoders of modules/ as cpc_tf/modules."""

import pathlib

import setuptools

ROOT = pathlib.Path(__file__).parent
# Without the folders beside them, which hold the same encoders for other runtimes.
DATA = {
    f"cpc_tf.modules.{path.parent.name}": f"modules/{path.parent.name}"
    for path in ROOT.glob("modules/*/encoder.json")
}
DATA["cpc_tf.flags"] = "flags"

setuptools.setup(
    packages=[*setuptools.find_packages(include=["cpc_tf", "cpc_tf.*"]), *DATA],
    package_dir=DATA,
    package_data={
        "": [
            "*.cc",
            "*.h",
            "*.sh",
            "*.md",
            "*.css",
            "*.html",
            "*.js",
            "*.jinja",
            "py.typed",
            "*.pyi",
        ],
        **{package: ["**"] for package in DATA},
    },
)
