"""What MkDocs adds to the pages of ``docs/``: a reference of every public name, and the files that pages link to.

A hook of ``mkdocs.yml``. Public names are those of ``tests/public_api.json``, a page for each room, and mkdocstrings
reads their docstrings. A link to a file outside of ``docs/`` leads to a page that shows it.
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
OUTSIDE = re.compile(r"\]\(\.\./((?:examples|tests|jeeves_reflexion)/[^)#]+)\)")
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
    """Add a page for each room, and one for each file outside of ``docs/`` that a page links to."""
    for room, names in rooms().items():
        asked = "\n\n".join(f"::: {name}" for name in names)
        files.append(File.generated(config, f"api/{room}.md", content=f"# {room}\n\n{asked}\n"))
    for path in sorted({path for page in files.documentation_pages() for path in _linked(page)}):
        shown = (
            f"# `{path}`\n\n````{path.rpartition('.')[2]}\n{(ROOT / path).read_text(encoding='utf-8')}````\n"
        )
        page = File.generated(config, f"{path}.md", content=shown, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def _linked(page: File) -> list[str]:
    return OUTSIDE.findall(page.content_string)


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to files outside of ``docs/`` to the pages that show them."""
    here = posixpath.dirname(page.file.src_uri) or "."
    return OUTSIDE.sub(lambda found: f"]({posixpath.relpath(found[1], here)}.md)", markdown)


def on_page_content(html: str, **_: object) -> str:
    """Show the roles in docstrings as the names that they lead to."""
    return ROLE.sub(lambda found: f"<code>{found[1].rpartition('.')[2]}</code>", html)
