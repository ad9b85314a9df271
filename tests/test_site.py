"""The pages of ``docs/``: all are in the navigation, links lead somewhere, none is long. MkDocs builds them apart."""

import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
PRINTED = re.compile(
    r"<!-- fixed: begin -->.*<!-- fixed: end -->|^\| licence, .*?\n\n", re.DOTALL | re.MULTILINE
)
"""What a command writes into a page: the runs of the protocol, the table of licences."""
LINK = re.compile(r"(?<!\!)\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


@cache
def anchors(page: Path) -> set[str]:
    """Return what a link may name of a page: its headings in small letters, with hyphens for spaces."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip()) for heading in headings}


def test_the_navigation_has_every_page_and_no_other():
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load((ROOT / "scripts" / "mkdocs.yml").read_text(encoding="utf-8"))
    named = re.findall(r"[\w./-]+\.md", str(config["nav"]))
    assert sorted(named) == [page.name for page in PAGES]


def test_every_link_of_a_page_leads_somewhere():
    written = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md")]
    lost = []
    for page in written:
        for found in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            path, _, anchor = "".join(found).partition("#")
            target = page.parent / path if path else page
            if "://" in path or target.is_relative_to(DOCS / "api"):  # made when the site is
                continue
            there = target.is_file() if page.is_relative_to(DOCS) else target.exists()
            if not there or (anchor and anchor not in anchors(target)):
                lost.append(f"{page.relative_to(ROOT)}: {path}#{anchor}")
    assert not lost


def test_pages_that_code_names_are_there():
    lost = [
        f"{module.relative_to(ROOT)} names {path}"
        for package in ("jeeves_reflexion", "vectorstores", "benchmarks", "tests", "scripts")
        for module in (ROOT / package).rglob("*.py")
        for path in re.findall(r"docs/[\w/-]+\.md", module.read_text(encoding="utf-8"))
        if not (ROOT / path).exists()
    ]
    assert not lost


def test_no_page_is_long_and_all_of_them_can_be_read():
    texts = {page.name: PRINTED.sub("", page.read_text(encoding="utf-8") + "\n\n") for page in PAGES}
    words = {name: len(text.split()) for name, text in texts.items()}
    assert {name: count for name, count in words.items() if count > 1500} == {}
    assert sum(words.values()) <= 30_000


def test_the_tutorial_of_an_experiment_shows_what_it_says(tmp_path):
    page = (DOCS / "first-experiment.md").read_text(encoding="utf-8")
    agent, tasks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_agent.py").write_text(agent, encoding="utf-8")
    (command,) = re.findall(r"^jeeves-reflexion (.+)$", page, re.MULTILINE)
    for run in (["-c", tasks], ["-m", "jeeves_reflexion", *shlex.split(command)]):
        done = subprocess.run(
            [sys.executable, *run], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stderr
    shown = re.search(r"```text\n(.*?)```", page, re.DOTALL)[1]
    assert shown in done.stdout
    quoted = re.search(r"^> (.+)$", page, re.MULTILINE)[1]
    assert quoted in (tmp_path / "runs" / "first" / "report" / "report.md").read_text(encoding="utf-8")
