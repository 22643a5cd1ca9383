"""`--format=huggingface` and `--format=kaggle`: a module in the layout that these sites take.
Nothing is uploaded.
"""

from __future__ import annotations

import os

from cpc_tf.core.files import read_text, to_json, write_file
from cpc_tf.core.settings import ConfigError
from cpc_tf.export.config import HUGGING_FACE
from cpc_tf.export.shared import copy_module

# what only the owner knows
OWNER = "INSERT_OWNER_SLUG_HERE"
LICENCE = "INSERT_LICENSE_NAME_HERE"
INSTANCE = "tensorFlow2"  # the folder of Kaggle's model instance, named as its framework
# Hugging Face's names
_TASKS = {
    "encoder": "image-feature-extraction",
    "classifier": "image-classification",
    "detector": "object-detection",
}


def write(format: str, module: str, directory: str, name: str) -> str:
    """Copies a module into a directory with the metadata of a site, and returns how it is uploaded.

    Args:
      format: HUGGING_FACE: the module, whose README.md begins with the site's metadata. KAGGLE:
        model-metadata.json and a folder with the module and model-instance-metadata.json.
      module: directory of a module of ours.
      directory: where to; it exists and is empty.
      name: of the model at the site.

    Raises:
      ConfigError: the module is not one of ours.
      NotWritten: it cannot be copied.
    """
    kind = next(
        (kind for kind in _TASKS if os.path.exists(os.path.join(module, f"{kind}.json"))), None
    )
    if kind is None:
        needed = ", ".join(f"{kind}.json" for kind in _TASKS)
        raise ConfigError(
            "module", module, f"is not a module of `cpc-tf export`: none of {needed} is in it"
        )
    readme = read_text(os.path.join(module, "README.md"))
    if format == HUGGING_FACE:
        copy_module(module, directory)
        metadata = [
            "library_name: tensorflow",
            f"pipeline_tag: {_TASKS[kind]}",
            "license: other",
            "license_name: see-licence-below",
            "tags: [tf-hub, cpc, self-supervised-learning]",
        ]
        write_file(
            os.path.join(directory, "README.md"), "\n".join(["---", *metadata, "---", "", readme])
        )
        return f"hf upload OWNER/{name} DIRECTORY"
    title, _, rest = readme.removeprefix("# ").partition("\n")
    slug = name.replace("_", "-").lower()
    instance = os.path.join(directory, INSTANCE)
    copy_module(module, instance)
    model = {
        "ownerSlug": OWNER,
        "title": name,
        "slug": slug,
        "subtitle": title.replace("`", ""),
        "isPrivate": True,
    }
    model |= {"description": rest.strip(), "publishTime": "", "provenanceSources": ""}
    about = {
        "ownerSlug": OWNER,
        "modelSlug": slug,
        "instanceSlug": "savedmodel",
        "framework": INSTANCE,
    }
    about |= {"overview": title.replace("`", ""), "usage": rest.strip(), "licenseName": LICENCE}
    about |= {"fineTunable": kind == "encoder", "trainingData": []}
    write_file(os.path.join(directory, "model-metadata.json"), to_json(model))
    write_file(os.path.join(instance, "model-instance-metadata.json"), to_json(about))
    return (
        "kaggle models create -p DIRECTORY, then kaggle models variations create -p"
        f" DIRECTORY/{INSTANCE}"
    )
