"""What a person reads at the end, on made-up results."""

from __future__ import annotations

from pathlib import Path

from benchmarks.alfworld.experiment import Finished
from benchmarks.alfworld.report import summary
from benchmarks.alfworld.setting import Setting
from jeeves_reflexion import (
    Attempt,
    Evaluation,
    Lesson,
    Provenance,
    Recall,
    RecalledLesson,
    Reflection,
    Step,
    Task,
    Trial,
)
from jeeves_reflexion.experiments import Plan, Results, Tried
from vectorstores import HashingEmbedder

TASK = Task("You are in a room. Your task is to: put a mug in sink.", id="t1")
OTHER = Task("You are in a room. Your task is to: put a cup in sink.", id="t2")
VAGUE, EXACT = "Begin where I did not look, not in drawer 1.", "Take the mug from shelf 2."


def recall(*texts: str) -> Recall:
    items = (Lesson(str(n), text, "t1", "", Provenance("r", 1, 0.0)) for n, text in enumerate(texts))
    return Recall("r1", "t1", tuple(RecalledLesson(lesson, 0.9, "") for lesson in items))


def trial(
    number: int, *commands: str, passed: bool = False, thought: str = "", texts: tuple[str, ...] = ()
) -> Trial:
    steps = tuple(Step(thought, command, "You see a mug 1.") for command in commands)
    attempt = Attempt("", steps, metadata={"won": passed})
    return Trial(
        number,
        attempt,
        Evaluation(float(passed), passed=passed),
        recall=recall(*texts),
        reflection=None if passed else Reflection(EXACT if number == 1 else VAGUE),
        passed=passed,
    )


SETTING = Setting(Plan(), Path("out"), HashingEmbedder())


def finished(rows: list[tuple[Task, Trial]], *, known: int = 0) -> Finished:
    results = Results((TASK, OTHER), ("selective",), (0,), 2)
    results.rows = [Tried("selective", 0, task, tried) for task, tried in rows]
    return Finished(
        results,
        Path("out/report/curves-learning-oracle-judged.svg"),
        "out/lessons (namespace alfworld)",
        known,
        Path("out/report/report.html"),
    )


def test_the_story_is_one_in_which_the_lesson_mattered():
    rows = [
        (TASK, trial(1, "go to drawer 1")),
        (OTHER, trial(1, "go to drawer 1")),
        (
            TASK,
            trial(
                2, "go to shelf 2", "take mug 1", passed=True, thought="a lesson says", texts=(VAGUE, EXACT)
            ),
        ),
        (OTHER, trial(2, "go to bed 1", passed=True, thought="I know nothing better", texts=(VAGUE,))),
    ]
    text = summary(finished(rows), SETTING)
    assert "| selective | 0/2 = 0% (0% to 66%) | 2/2 = 100% (34% to 100%) |" in text
    assert "A task that failed and then succeeded: put a mug in sink." in text
    assert f"lesson recalled before trial 2: {EXACT}" in text
    assert "> go to shelf 2  ->  You see a mug 1." in text
    where = (
        "Learning curve: out/report/curves-learning-oracle-judged.svg\nReport: out/report/report.html\n"
        "Lessons: out/lessons (namespace alfworld)"
    )
    assert where in text
    assert "did not start from nothing" not in text


def test_a_warm_start_is_said():
    rows = [(TASK, trial(1, "go to shelf 2", passed=True)), (OTHER, trial(1, "go to bed 1", passed=True))]
    text = summary(finished(rows, known=7), SETTING)
    assert "did not start from nothing: it had 7 lessons" in text
    assert "A task that failed" not in text
