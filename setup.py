"""What pyproject.toml cannot say: the presets of flags/ are installed as cpc_tf/flags."""

import setuptools

setuptools.setup(
    packages=[*setuptools.find_packages(include=["cpc_tf", "cpc_tf.*"]), "cpc_tf.flags"],
    package_dir={"cpc_tf.flags": "flags"},
    package_data={
        "": ["*.cc", "*.h", "*.sh", "*.md", "*.css", "*.jinja", "py.typed", "*.pyi"],
        "cpc_tf.flags": ["*/*.flags"],
    },
)
