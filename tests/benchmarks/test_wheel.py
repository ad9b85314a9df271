"""The wheel and the source distribution: what they install, and that it runs from where it was installed."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import jeeves_reflexion

pytest.importorskip("hatchling", reason="the build backend is not installed")
ROOT = Path(__file__).parents[2]
BENCHMARKS = ("alfworld", "hotpotqa", "humaneval", "refinement")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Made as for a release: from the unpacked source distribution, with the address of a repository."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(folder / build("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return folder / build("wheel", unpacked, folder)


def build(kind, source, folder):
    # By the build backend itself: what pip would call, without fetching anything.
    code = f"import sys, hatchling.build; print(hatchling.build.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=source,
        env={**os.environ, "PROJECT_URL": "https://example.org/team/project/"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1]


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """A virtual environment with the wheel and, behind it, the dependencies of this interpreter."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    install = ["install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), *install], check=True
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    # A line of such a file is put on the path, and the files of that folder are not read: no editable install counts.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def run(environment, folder, *command):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(environment / "bin" / command[0]), *command[1:]],
        cwd=folder,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_installs_two_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"jeeves_reflexion", "vectorstores"}
    parts = {name.split("/")[2] for name in names if name.startswith("jeeves_reflexion/benchmarks/")}
    assert parts == {"__init__.py", "options.py", "records.py", "report.py", "runs.py", *BENCHMARKS}
    assert {"jeeves_reflexion/py.typed", "vectorstores/py.typed"} < set(names)
    assert "jeeves_reflexion/benchmarks/alfworld/prompts/player.md" in names


def test_the_package_page_has_links_that_lead_somewhere_from_there(wheel):
    (about,) = metadata.distributions(name="jeeves-reflexion", path=[str(wheel)])
    assert about.version == jeeves_reflexion.__version__
    urls = dict(each.split(", ") for each in about.metadata.get_all("Project-URL"))
    assert urls.pop("Source") == "https://example.org/team/project"
    for url in urls.values():
        path = url.removeprefix("https://example.org/team/project/blob/HEAD/")
        assert path != url
        assert (ROOT / path).is_file(), url
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", about.read_text("METADATA"))
    assert len(links) > 10
    for picture, link in links:
        there = f"https://example.org/team/project/{'raw' if picture else 'blob'}/HEAD/"
        assert link.startswith((there, "https://arxiv.org/")), link


def test_the_first_example_runs_where_it_was_installed(environment, tmp_path):
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    for attempts in ("2 attempts", "1 attempt,"):
        done = run(environment, tmp_path, "python", "-W", "error", "-c", block.group(1))
        assert f"passed ({attempts}" in done.stdout, done.stderr


FOUND = """
import importlib.util, sys
from click.testing import CliRunner
from jeeves_reflexion.cli.program import program
for name in sys.argv[1:]:
    print(CliRunner().invoke(program, ["bench", name, "--help"], prog_name="jeeves-reflexion").output)
    print(sys.modules[f"jeeves_reflexion.benchmarks.{name}.command"].__file__)
print(importlib.util.find_spec("benchmarks"))
"""


def test_the_benchmarks_are_found_after_installing_but_no_package_of_the_name_benchmarks(
    environment, tmp_path
):
    done = run(environment, tmp_path, "python", "-c", FOUND, *BENCHMARKS)
    assert done.returncode == 0, done.stderr
    for name in BENCHMARKS:
        assert f"jeeves-reflexion bench {name} [OPTIONS]" in done.stdout
    assert len(re.findall(f"(?m)^{re.escape(str(environment))}/", done.stdout)) == len(BENCHMARKS)
    assert done.stdout.endswith("\nNone\n")


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_games_are_played_from_the_installed_package(engine, environment, made_folder, made_games, tmp_path):
    options = ["--limit", "1", "--trials", "1", "--arms", "retry", "--embedder", "hashing", "--json"]
    done = run(
        environment,
        tmp_path,
        *("jeeves-reflexion", "bench", "alfworld", *options, "--made-games", str(made_folder)),
    )
    assert done.returncode == 0, done.stderr
    assert '"learning_tasks": 1' in done.stdout


def test_the_repository_has_them_under_both_names():
    one, other = (
        importlib.import_module(f"{above}benchmarks.hotpotqa.command") for above in ("", "jeeves_reflexion.")
    )
    assert one.__file__ == other.__file__
