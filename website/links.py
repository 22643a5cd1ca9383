"""Links from docs/ to other files of the repository, such as ../flags/README.md: these files become
part of the site.

On GitHub such links work as they are. On the site a file outside docs/ lies below repository/, and
links are rewritten. README.md is the first page of the site; docs/index.md, which lists all pages,
is another.
"""

from __future__ import annotations

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).parent.parent
DOCS = "docs/"
OUTSIDE = "repository/"  # of the site
# file of the repository -> its address
MOVED = {
    "README.md": "index.md",
    "docs/index.md": "all_pages.md",
}
LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def on_files(files, config):
    """Adds the files outside docs/ that pages link to, and those that these link to."""
    from mkdocs.structure.files import File

    files.remove(files.get_file_from_path("index.md"))
    for path in sorted({*linked(pages()), *MOVED}):
        text = (ROOT / path).read_bytes()
        files.append(
            File.generated(
                config, address(path), content=text.decode() if path.endswith(".md") else text
            )
        )
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrites the links of a page to the addresses of the site."""
    return rewritten(markdown, source(page.file.src_uri))


def pages() -> list[str]:
    """Returns the pages below docs/, relative to the repository."""
    return [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / DOCS).rglob("*.md"))]


def linked(start: list[str]) -> set[str]:
    """Returns the files outside docs/ that can be reached by links from these pages, relative to
    the repository.
    """
    found = set()
    open_pages = list(start)
    while open_pages:
        path = open_pages.pop()
        targets = {target(path, link[1]) for link in LINK.findall((ROOT / path).read_text())}
        new = {each for each in targets if each and not each.startswith(DOCS)} - found
        found |= new
        open_pages += [each for each in new if each.endswith(".md")]
    return found


def target(path: str, link: str) -> str:
    """Returns the file that a link on the page `path` leads to, relative to the repository; '' if
    it leads to none.
    """
    name = link.partition("#")[0]
    if not name or "://" in link:
        return ""
    file = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if (ROOT / file).is_dir():
        file = f"{file}/README.md"
    return file if (ROOT / file).is_file() else ""


def address(path: str) -> str:
    """Returns where a file of the repository lies on the site."""
    return MOVED.get(path) or (path[len(DOCS) :] if path.startswith(DOCS) else OUTSIDE + path)


def source(address: str) -> str:
    """Returns the file of the repository of an address; the inverse of `address`."""
    moved = {place: path for path, place in MOVED.items()}
    return moved.get(address) or (
        address[len(OUTSIDE) :] if address.startswith(OUTSIDE) else DOCS + address
    )


def rewritten(text: str, path: str) -> str:
    """Returns the text of the page `path` with links that lead to the same files on the site."""

    def link(found: re.Match) -> str:
        file = target(path, found[2])
        anchor = found[2].partition("#")[2]
        if not file:
            return found[0]
        relative = posixpath.relpath(address(file), posixpath.dirname(address(path)))
        return f"{found[1]}{relative}{'#' if anchor else ''}{anchor}{found[3]}"

    return LINK.sub(link, text)
