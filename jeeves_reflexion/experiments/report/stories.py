"""Each task's story, to be opened: what every arm tried, what was recalled for it, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.markup import Html, element, joined
from jeeves_reflexion.experiments.report.reading import Played, Run
from jeeves_reflexion.experiments.report.shortening import Shortener, fitting
from jeeves_reflexion.experiments.results import Split, Tried
from jeeves_reflexion.types import Evaluation, Step, Task, Trial

_FILTERS: Final = {
    "all": "all tasks",
    "differs": "solved by some arms or seeds",
    "never": "never solved",
    "always": "always solved",
}


def stories(run: Run) -> Html:
    """Return the stories of all tasks, with a choice of which to show."""
    rows = (row for by_task in run.played.values() for each in by_task.values() for row in each.tries)
    shorten = Shortener(fitting(rows))
    chosen = joined(_choice(name, told) for name, told in _FILTERS.items())
    tasks = [(task, split) for split in run.splits for task in run.tasks_of(split)]
    told = (_task(run, task, split, number, shorten) for number, (task, split) in enumerate(tasks, 1))
    choices = element("fieldset", element("legend", "Show"), chosen)
    listed = element("div", told, class_="tasks")
    return element("div", element("p", str(shorten.detail)), choices, listed, class_="stories")


def _choice(name: str, told: str) -> Html:
    key = f"show-{name}"
    button = element("input", type="radio", name="show", id=key, checked=name == "all")
    return element("span", button, element("label", told, for_=key), class_="choice")


def _task(run: Run, task: Task, split: Split, number: int, shorten: Shortener) -> Html:
    by_arm = {
        arm: [
            found
            for seed in run.seeds
            if (found := run.played.get((arm, seed, split), {}).get(task.id)) is not None
        ]
        for arm in run.arms
    }
    played = [each for found in by_arm.values() for each in found]
    solved = [_solved(run, each) for each in played]
    kind = "never" if not any(solved) else "always" if all(solved) else "differs"
    held = element("span", "held out", class_="held") if split == "held-out" else None
    summary = element(
        "summary",
        element("b", str(number)),
        " ",
        element("span", shorten.cut(_sentence(task), 140), class_="text"),
        " ",
        held,
        element(
            "span", (_tally(run, arm, found) for arm, found in by_arm.items() if found), class_="tallies"
        ),
    )
    facts = " · ".join(
        [f"task {shorten.cut(task.id, 120)}"] + ([f"kind {shorten.cut(task.kind, 120)}"] if task.kind else [])
    )
    return element(
        "details",
        summary,
        element("p", facts, class_="facts text"),
        element("pre", shorten(task.prompt), class_="text"),
        (_played(run, each, shorten) for each in played),
        class_=f"task {kind}",
        id=f"task-{number}",
    )


def _sentence(task: Task) -> str:
    """The end of the prompt, which is where it says what is asked."""
    lines = [line.strip() for line in task.prompt.splitlines() if line.strip()]
    return lines[-1]


def _tally(run: Run, arm: str, found: list[Played]) -> Html:
    solved = sum(_solved(run, each) for each in found)
    kind = "good" if solved == len(found) else "bad" if not solved else "some"
    return element("span", f"{arm} {solved}/{len(found)}", class_=f"tally {kind}")


def _solved(run: Run, played: Played) -> bool:
    return run.solved(played, run.judges[0])[-1]


def _played(run: Run, played: Played, shorten: Shortener) -> Html:
    solved, n = _solved(run, played), len(played.tries)
    outcome = f"solved at trial {played.tries[-1].trial.number}" if solved else f"not solved in {n} tries"
    if n == 1 and not solved:
        outcome = "not solved in 1 try"
    told = element("span", outcome, class_="tally " + ("good" if solved else "bad"))
    summary = element("summary", f"{played.arm}, seed {played.seed} ", told)
    return element("details", summary, (_try(run, row, shorten) for row in played.tries), class_="played")


def _try(run: Run, row: Tried, shorten: Shortener) -> Html:
    trial = row.trial
    return element(
        "section",
        element("h4", f"Trial {trial.number}: {_facts(run, row)}"),
        _recalled(trial, shorten),
        _steps(trial, shorten),
        _labelled("Output", shorten(trial.attempt.output)),
        _labelled("Error", shorten(trial.attempt.error or "")),
        _labelled("Ended early", shorten(trial.attempt.interrupted or "")),
        _verdict(run.judges[0], row.trial.evaluation.public(row.task.reference), shorten),
        _verdict("oracle", row.scored.public(row.task.reference), shorten)
        if len(run.judges) > 1 and row.scored
        else None,
        _lesson(trial, shorten),
        _listed("Problems", trial.problems, shorten),
        class_="try " + ("good" if trial.passed else "bad"),
    )


def _facts(run: Run, row: Tried) -> str:
    trial = row.trial
    told = ["passed" if trial.passed else "failed"]
    if len(run.judges) > 1 and row.scored is not None:
        told.append(f"the scorer says {'right' if row.scored.passed else 'wrong'}")
    told.append("not scored" if trial.evaluation.score is None else f"score {trial.evaluation.score:.2f}")
    told.append(f"{len(trial.attempt.steps)} steps")
    told.append(f"{trial.seconds:.1f} s")
    used = row.usage
    least = "at least " if used.unreported else ""
    told.append(f"{least}{used.tokens} tokens" if used.calls > used.unreported else "tokens unknown")
    return ", ".join(told)


def _recalled(trial: Trial, shorten: Shortener) -> Html | None:
    if trial.recall is None or not (trial.recall.offered or trial.recall.withheld):
        return None
    offered = trial.recall.offered
    shown = offered[: shorten.detail.recalled]
    items = [element("li", f"{shorten(item.lesson.text)} ({item.similarity:.2f})") for item in shown]
    if len(shown) < len(offered):
        items.append(element("li", f"and {len(offered) - len(shown)} more"))
    withheld = len(trial.recall.withheld)
    beside = f", {withheld} withheld by chance" if withheld else ""
    head = element("h5", f"Lessons recalled{beside}")
    return joined([head, element("ul", items, class_="text")])


def _steps(trial: Trial, shorten: Shortener) -> Html | None:
    steps = trial.attempt.steps
    shown = steps[-shorten.detail.steps :] if shorten.detail.steps else ()
    if not shown:
        return None
    first = len(steps) - len(shown) + 1
    items = (element("li", _step(step, shorten), class_="failed" if step.failed else None) for step in shown)
    left_out = f", from step {first} of {len(steps)}" if first > 1 else ""
    head = element("h5", f"Steps{left_out}")
    return joined([head, element("ol", items, class_="text", start=first if first > 1 else None)])


def _step(step: Step, shorten: Shortener) -> Iterator[Html]:
    for name, part in (("i", step.thought), ("b", step.action), ("span", step.observation)):
        if part:
            yield element(name, shorten(part))


def _verdict(judge: JudgedBy, verdict: Evaluation, shorten: Shortener) -> Html:
    scored = "not scored" if verdict.score is None else f"score {verdict.score:.2f}"
    criteria = [f"{name} {score:.2f}" for name, score in verdict.criteria_scores.items()]
    errors = [f"{error.path}: {error.message}" if error.path else error.message for error in verdict.errors]
    found = [*criteria, *verdict.issues, *errors]
    who = "agent's own side" if judge == "self" else "oracle"
    return joined(
        [
            element("h5", f"Verdict of the {who}: {scored}"),
            _plain(shorten(verdict.rationale)),
            _items(found, shorten),
        ]
    )


def _lesson(trial: Trial, shorten: Shortener) -> Html | None:
    if trial.reflection is None:
        return None
    fields = [f"{name}: {said}" for name, said in trial.reflection.fields.items() if said]
    head = element("h5", "Lesson written")
    return joined([head, _plain(shorten(trial.reflection.lesson)), _items(fields, shorten)])


def _labelled(name: str, told: str) -> Html | None:
    return joined([element("h5", name), element("pre", told, class_="text")]) if told.strip() else None


def _listed(name: str, texts: Iterable[str], shorten: Shortener) -> Html | None:
    items = _items(texts, shorten)
    return None if items is None else joined([element("h5", name), items])


def _items(texts: Iterable[str], shorten: Shortener) -> Html | None:
    items = [element("li", told) for told in shorten.all(texts)]
    return element("ul", items, class_="text") if items else None


def _plain(told: str) -> Html | None:
    return element("p", told, class_="text") if told.strip() else None
