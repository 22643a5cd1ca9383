"""The pictures to pre-train on: those of --unlabelled, and those of --labelled that are not for tests."""

from __future__ import annotations

import dataclasses
import os

from cpc_tf.data.config import PicturesConfig
from cpc_tf.data.sources import check_cache, folder_classes, groups, labelled, names, tree, walk
from cpc_tf.data.sources.folder import FolderSource, open_folder
from cpc_tf.settings import ConfigError

_UNLABELLED = "unlabelled"


def open_pool(data: PicturesConfig, split: str) -> FolderSource:
    """Returns the pictures of --unlabelled, and of --labelled those of a split, without labels.

    Pictures of --labelled that have a label or belong to a test, but not to the split, are left out of --unlabelled,
    and so are copies of them.

    Args:
      data: the settings; `unlabelled` names folders.
      split: of --labelled; 'unlabelled' means the pictures of --unlabelled, which are added if it does not name them.

    Raises:
      ConfigError: no such folder or split, no images in a folder, too many broken or huge files.
    """
    pictures = _pictures(data)
    if not data.labelled:
        root, (paths,) = _relative([list(pictures.values())])
        name = _UNLABELLED if any(map(is_unlabelled, split.split("+"))) else "train"
        found = tree.Tree(root, paths, "", {name: paths}, {name: ""}, data.flag, table={})
        source = open_folder(data, split, found)
        source.about = source.about._replace(unlabelled="labels are not used", splits={})
        return source
    own = labelled.read(data)
    texts = {name: text for each in own.splits for name, text in folder_classes.texts(own, each).items()}
    known = {_real(f"{own.root}/{name}"): name for name in own.names}
    bound = {name for each in own.splits if tree.is_test(each) for name in own.splits[each]}
    bound |= {name for name, text in texts.items() if text}
    # What has no label there is cut and counted as a picture of --unlabelled.
    free = [path for real, path in pictures.items() if known.get(real) not in bound]
    moved = {known[real] for real in pictures if real in known} - bound
    root, (paths, own_paths) = _relative([free, [f"{own.root}/{name}" for name in own.names]])
    prefix = own_paths[0][: len(own_paths[0]) - len(own.names[0])]
    paths = _without_copies(data, root, paths, [prefix + name for name in bound])
    splits = {name: [prefix + file for file in files if file not in moved] for name, files in own.splits.items()}
    mine = next((name for name in splits if names.is_unlabelled(name)), _UNLABELLED)
    splits[mine] = sorted({*splits.get(mine, ()), *paths})
    found = dataclasses.replace(
        own,
        root=root,
        names=sorted({*paths, *own_paths}),
        splits={name: files for name, files in splits.items() if files},
        bases={**{name: prefix + base for name, base in own.bases.items()}, mine: ""},
        table={prefix + name: (text,) for name, text in texts.items() if text},
        groups={prefix + name: group for name, group in own.groups.items()},
        flag=f"{own.flag} --unlabelled={data.unlabelled}",
        notes=(*own.notes, *_notes(data, len(paths), len(pictures) - len(paths))),
    )
    if paths and not any(map(is_unlabelled, split.split("+"))):
        split = f"{split}+{mine}"
    source = open_folder(data, split, found)
    source.class_names = ()  # the table is for slices alone
    source.about = source.about._replace(unlabelled="labels are not used")
    return source


def _pictures(data):
    """Returns {real path: path} of the pictures of --unlabelled."""
    found = {}
    for folder in data.folders:
        flag = f"--unlabelled={folder}"
        root = walk.folder_of(f"folder:{folder}", flag)
        own = tree.images(root)
        if not own:
            raise ConfigError(f"{flag}: no images in it or in its folders; what is read is {' '.join(tree.EXTENSIONS)}")
        for name in own:
            found.setdefault(_real(f"{root}/{name}"), f"{root}/{name}")
    return found


def _without_copies(data, root, paths, bound):
    """Returns the pictures of --unlabelled of which no bound one has the same content."""
    every = [*paths, *sorted(bound)]
    first_of = groups.copies(data.data_dir, root, every, check_cache.stats(root, every))
    taken = {first_of[name] for name in bound if name in first_of}
    return [name for name in paths if first_of.get(name) not in taken]


def _notes(data, count, twice):
    """Returns lines on the pictures of --unlabelled that are used, and on those that are also in --labelled."""
    yield f"--unlabelled={data.unlabelled}: {count} images"
    if twice:
        yield f"of --unlabelled {twice} images have a label or are a test in --labelled: those of --split are used"


def _real(path):
    return path if "://" in path else os.path.realpath(path)


def _relative(groups):
    """Returns a folder that holds all files, and the names of each group of files relative to it."""
    groups = [[path if "://" in path else os.path.abspath(path) for path in paths] for paths in groups]
    begins = {path.partition("://")[0] if "://" in path else "" for paths in groups for path in paths}
    if len(begins) > 1:
        raise ConfigError(
            "--unlabelled: folders on this machine and in buckets cannot be joined; copy them to one place"
        )
    folders = [f"{os.path.dirname(path)}/" for paths in groups for path in paths]
    prefix = os.path.commonprefix(folders)
    prefix = prefix[: prefix.rindex("/") + 1]
    return prefix[:-1], [sorted(path[len(prefix) :] for path in paths) for paths in groups]


def is_unlabelled(part: str) -> bool:
    """Returns whether a part of --split, such as unlabelled[:50%], is of --unlabelled."""
    return names.is_unlabelled(part.partition("[")[0])
