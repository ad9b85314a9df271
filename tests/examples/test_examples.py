"""Each example runs as it stands, in an empty folder and without a network, and comes to what it promises."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., list[str]]


def started(name: str, folder: Path) -> list[str]:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name / "main.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example in this process, where a warning is an error as well."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, *arguments: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        runpy.run_path(str(EXAMPLES / name / "main.py"), run_name="__main__")
        told = capsys.readouterr()
        assert told.err == ""
        return told.out.splitlines()

    return run


def test_the_second_session_succeeds_at_its_first_attempt(tmp_path: Path) -> None:
    first, learned, second = started("wrap_your_agent", tmp_path)
    assert first == "Session 1: When was the report signed? 2026-11-21, attempts: 2"
    assert "ISO 8601" in learned
    assert second == "Session 2: When was the contract signed? 2026-11-21, attempts: 1"

    again = started("wrap_your_agent", tmp_path)
    assert [line.rpartition(", ")[2] for line in again] == ["attempts: 1"] * 2


def test_a_scripted_model_fails_learns_and_passes_before_our_eyes(run: Run) -> None:
    told = [line for line in run("own_model", "--scripted") if "tokens" not in line]
    assert told == [
        "Attempt 1: Io, Europa and Titan.",
        "  score 0.3: failed",
        "  lesson: Name the Galilean moons of Jupiter, all four, and check that none belongs to another planet.",
        "Attempt 2: Io, Europa, Ganymede and Callisto.",
        "  score 1.0: passed",
        "passed after 2 attempts: Io, Europa, Ganymede and Callisto.",
    ]


def test_things_are_found_trial_by_trial(run: Run) -> None:
    assert run("environment") == [
        "Trial 1: found 1 of 3 (book)",
        "Trial 2: found 2 of 3 (keys, book)",
        "Trial 3: found 3 of 3 (keys, book, mug)",
    ]


def test_code_is_edited_until_no_criterion_has_a_veto(run: Run) -> None:
    assert run("reflection_code") == [
        "Iteration 1: Score 0.85",
        "  Issues: ['efficiency: every substring is copied and reversed: cubic time']",
        "Iteration 2: Score 0.95",
        "  Issues: []",
    ]


def test_a_validator_has_its_say(run: Run) -> None:
    first, second, *code = run("reflection_validator")
    assert first.startswith("0.45 [\"syntax: Syntax error: expected ':'")
    assert (second, code) == ("0.95 []", ["def greet(name):", "    print(f'hello {name}')"])


def test_drafts_grow_better(run: Run) -> None:
    assert run("reflection_writing") == [
        "Final draft after 2 iterations",
        "Best score achieved: 0.92",
    ]


def test_a_task_reads_in_its_second_run_what_the_first_learned(run: Run, tmp_path: Path) -> None:
    told = run("task_notes")
    assert told == [
        "  reflected: Say in which order they should come. (reflection 1)",
        "Run 1, no notes: Io and Ganymede, among others.",
        "  reflected: Say in which order they should come. (reflection 2)",
        "Run 2, notes of version 1: Io, Europa, Ganymede, Callisto",
        "The task itself is as it was: Name some moons of Jupiter.",
    ]
    assert "Run 1, notes of version 1: Io, Europa, Ganymede, Callisto" in started("task_notes", tmp_path)


def test_reflections_are_files_that_the_next_task_gets_to_see(run: Run, tmp_path: Path) -> None:
    told = run("structured_reflections")
    assert told == [
        "Vienna: 42 listings, attempts: 2",
        "Lyon: 42 listings, attempts: 1",
        "memory/reflections/scraper/...-always-validate-api-response-status.md",
        "  Wrong strategy: The body was parsed before the status was looked at.",
        "  I should follow this rule: Look at how a call ended before you use what it returned.",
    ]
    again = started("structured_reflections", tmp_path)
    assert [line.rpartition(", ")[2] for line in again[:2]] == ["attempts: 1"] * 2


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("workflow_profile", "Created profile for Ada Lovelace (ada@example.org, 37 next year)"),
        ("workflow_own_steps", "2 Hello, Ada and Ada"),
    ],
)
def test_an_example_of_workflows_comes_to_what_it_promises(name: str, last: str, run: Run) -> None:
    assert run(name)[-1] == last


def test_every_example_is_tested() -> None:
    assert {folder.name for folder in EXAMPLES.iterdir() if folder.is_dir()} == {
        "environment",
        "notebooks",  # run by test_notebooks
        "own_model",
        "reflection_code",
        "reflection_validator",
        "reflection_writing",
        "session_hook",  # run by tests/jeeves_reflexion/mcp
        "structured_reflections",
        "task_notes",
        "workflow_own_steps",
        "workflow_profile",
        "wrap_your_agent",
    }
