"""What MkDocs adds to the pages of ``docs/``: a reference of every public name, and the files that pages link to.

A hook of ``scripts/mkdocs.yml``. Public names are those of ``tests/public_api.json``, a page for each room, and
mkdocstrings reads their docstrings. A link to a file outside of ``docs/`` leads to a page that shows it.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(((?:\.\./)+[^)#\s]+)\)")
CODE = (".py", ".yaml")
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data):<code>~?([\w.]+)</code>")
ELSEWHERE = ("errors", "events")
"""Rooms that a page of ``docs/`` shows."""
WITH = {"drafts": "refinement", "redaction": "lessons", "text": "agents"}
"""Rooms that share the page of another one."""


def rooms() -> dict[str, list[str]]:
    """Return the public names of each room, each under the path by which it is imported."""
    found: dict[str, list[str]] = {}
    names = json.loads((ROOT / "tests" / "public_api.json").read_text(encoding="utf-8"))["names"]
    for module, public in names.items():
        stub = ROOT / module.replace(".", "/") / "__init__.pyi"
        sources = re.findall(r"from ([\w.]+) import (\w+)", stub.read_text("utf-8")) if stub.exists() else []
        source = {name: path for path, name in sources}
        for name, described in public.items():
            if name.startswith("__"):
                continue
            parts = source.get(name, module).split(".")
            room = parts[1] if parts[0] == "jeeves_reflexion" else parts[0]
            if room not in ELSEWHERE and not str(described).startswith("= "):
                found.setdefault(WITH.get(room, room), []).append(f"{module}.{name}")
    return dict(sorted(found.items()))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Name the pages of the reference and of results in the navigation."""
    *_, reference, results = config.nav or []
    next(entry for entry in reference["Reference"] if "API" in entry)["API"] += [
        {room: f"api/{room}.md"} for room in rooms()
    ]
    results["Results"] += [f"results/{page.name}" for page in sorted((ROOT / "docs/results").glob("*.md"))]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each room, and the files outside of ``docs/`` that pages link to: code as a page that shows it."""
    for room, names in rooms().items():
        asked = "\n\n".join(f"::: {name}" for name in names)
        files.append(File.generated(config, f"api/{room}.md", content=f"# {room}\n\n{asked}\n"))
    pages = list(files.documentation_pages())
    linked = {outside(page, link) for page in pages for link in LINK.findall(page.content_string)}
    for path in sorted(linked - {None}):
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.endswith(CODE):
            text = f"# `{path}`\n\n````{path.rpartition('.')[2]}\n{text}````\n"
        files.append(File.generated(config, shown(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def outside(page: File, link: str) -> str | None:
    """Return the path of a file of the repository that a page links to and that is no file of ``docs/``."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page.src_uri), link))
    return path if not path.startswith(("docs/", "..")) and (ROOT / path).is_file() else None


def shown(path: str) -> str:
    """Return where the site shows a file of the repository."""
    return f"{path}.md" if path.endswith(CODE) else path


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to files outside of ``docs/`` to where the site shows them."""

    def led(found: re.Match[str]) -> str:
        path = outside(page.file, found[1])
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"]({posixpath.relpath(shown(path), here)})" if path else found[0]

    return LINK.sub(led, markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show the roles in docstrings as the names that they lead to."""
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
