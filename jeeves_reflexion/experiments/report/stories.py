"""Each task's story, to be opened: what every arm tried, what was recalled for it, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.html import Html, element, joined
from jeeves_reflexion.experiments.results import Results, Split, Tried
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Evaluation, Step, Task, Trial

MAX_CHARACTERS: Final = 12_000_000
"""So many characters of tries are shown at most, about: a browser opens that within a second or two."""

_FILTERS: Final = {
    "all": "all tasks",
    "differs": "solved by some arms or seeds",
    "never": "never solved",
    "always": "always solved",
}


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is shown: the last ``steps`` of a try, ``characters`` of each text, the best ``recalled`` lessons."""

    steps: int
    characters: int
    recalled: int

    @classmethod
    def of(cls, tries: int) -> Detail:
        """Return how much there is room for, of so many tries."""
        room = MAX_CHARACTERS // max(tries, 1)
        return cls(min(room // 500, 200), min(max(room // 8, 160), 8000), min(max(room // 1000, 2), 50))

    def __str__(self) -> str:
        return (
            f"Of each try the last {self.steps} steps are shown, of each text at most {self.characters} characters,"
            f" and the first {self.recalled} of the lessons recalled; the journal of the run has all of it."
        )


@dataclass(slots=True)
class Shortener:
    """Takes secrets out of texts and cuts them; the same text is looked at once."""

    detail: Detail
    _known: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str, characters: int = 0) -> str:
        """Return the text without secrets, with its beginning and its end where it is too long."""
        characters = characters or self.detail.characters
        # Secrets are looked for in far more than is shown, since half of one is not known as one any more.
        text = _cut(text, 4 * characters + 4000, head=2 * characters + 2000)
        if text not in self._known:
            self._known[text] = redact(text)
        return _cut(self._known[text], characters, head=characters * 2 // 3)


def _cut(text: str, characters: int, *, head: int) -> str:
    """Return a text, or its first ``head`` and its last characters, and how many are left out between them."""
    if len(text) <= characters:
        return text
    tail = characters - head
    return f"{text[:head]} [... {len(text) - characters} characters cut ...] {text[-tail:]}"


def stories(results: Results) -> Html:
    """Return the stories of all tasks, with a choice of which to show."""
    shorten = Shortener(Detail.of(len(results.rows)))
    by_task: dict[tuple[Split, str], list[Tried]] = {}
    for row in results.rows:
        by_task.setdefault((row.split, row.task.id), []).append(row)
    tasks = [(task, split) for split in results.splits for task in results.tasks_of(split)]
    told = (
        _task(results, task, by_task.get((split, task.id), []), number, shorten)
        for number, (task, split) in enumerate(tasks, 1)
    )
    chosen = joined(_choice(name, words) for name, words in _FILTERS.items())
    choices = element("fieldset", element("legend", "Show"), chosen)
    listed = element("div", told, class_="tasks")
    return element("div", element("p", str(shorten.detail)), choices, listed, class_="stories")


def _choice(name: str, told: str) -> Html:
    key = f"show-{name}"
    button = element("input", type="radio", name="show", id=key, checked=name == "all")
    return element("span", button, element("label", told, for_=key), class_="choice")


def _task(results: Results, task: Task, rows: list[Tried], number: int, shorten: Shortener) -> Html:
    played: dict[tuple[str, int], list[Tried]] = {}
    for row in sorted(rows, key=lambda row: (results.arms.index(row.arm), results.seeds.index(row.seed))):
        played.setdefault((row.arm, row.seed), []).append(row)
    solved = {key: results.solved(tries, results.judged_by)[-1] for key, tries in played.items()}
    kind = "never" if not any(solved.values()) else "always" if all(solved.values()) else "differs"
    tallies = (
        _tally(arm, [passed for (name, _), passed in solved.items() if name == arm])
        for arm in dict.fromkeys(arm for arm, _ in played)
    )
    # The end of the prompt is where it says what is asked.
    question = next(line for line in reversed(task.prompt.splitlines()) if line.strip()).strip()
    summary = element(
        "summary",
        element("b", str(number)),
        " ",
        element("span", shorten(question, 140), class_="text"),
        " ",
        element("span", "held out", class_="held") if task in results.held_out else None,
        element("span", tallies, class_="tallies"),
    )
    facts = f"task {shorten(task.id, 120)}" + (f" · kind {shorten(task.kind, 120)}" if task.kind else "")
    return element(
        "details",
        summary,
        element("p", facts, class_="facts text"),
        element("pre", shorten(task.prompt), class_="text"),
        (_played(results, tries, solved[key], shorten) for key, tries in played.items()),
        class_=f"task {kind}",
        id=f"task-{number}",
    )


def _tally(arm: str, passed: list[bool]) -> Html:
    kind = "good" if all(passed) else "some" if any(passed) else "bad"
    return element("span", f"{arm} {sum(passed)}/{len(passed)}", class_=f"tally {kind}")


def _played(results: Results, tries: list[Tried], solved: bool, shorten: Shortener) -> Html:  # noqa: FBT001
    n, last = len(tries), tries[-1]
    outcome = (
        f"solved at trial {last.trial.number}"
        if solved
        else f"not solved in {n} {'try' if n == 1 else 'tries'}"
    )
    told = element("span", outcome, class_="tally " + ("good" if solved else "bad"))
    summary = element("summary", f"{last.arm}, seed {last.seed} ", told)
    return element("details", summary, (_try(results, row, shorten) for row in tries), class_="played")


def _try(results: Results, row: Tried, shorten: Shortener) -> Html:
    trial, attempt, gold = row.trial, row.trial.attempt, row.task.reference
    scored = row.scored if len(results.judges) > 1 else None
    return element(
        "section",
        element("h4", f"Trial {trial.number}: {_facts(row, scored)}"),
        _recalled(trial, shorten),
        _steps(trial, shorten),
        _titled("Output", _text("pre", shorten(attempt.output))),
        _titled("Error", _text("pre", shorten(attempt.error or ""))),
        _titled("Ended early", _text("pre", shorten(attempt.interrupted or ""))),
        _verdict(results.judged_by, trial.evaluation.public(gold), shorten),
        _verdict("oracle", scored.public(gold), shorten) if scored else None,
        _lesson(trial, shorten),
        _titled("Problems", _items(trial.problems, shorten)),
        class_="try " + ("good" if trial.passed else "bad"),
    )


def _facts(row: Tried, scored: Evaluation | None) -> str:
    trial, used = row.trial, row.usage
    told = ["passed" if trial.passed else "failed"]
    if scored is not None:
        told.append(f"the scorer says {'right' if scored.passed else 'wrong'}")
    told += [_score(trial.evaluation), f"{len(trial.attempt.steps)} steps", f"{trial.seconds:.1f} s"]
    least = "at least " if used.unreported else ""
    told.append(f"{least}{used.tokens} tokens" if used.calls > used.unreported else "tokens unknown")
    return ", ".join(told)


def _score(verdict: Evaluation) -> str:
    return "not scored" if verdict.score is None else f"score {verdict.score:.2f}"


def _recalled(trial: Trial, shorten: Shortener) -> Html | None:
    if trial.recall is None or not (trial.recall.offered or trial.recall.withheld):
        return None
    offered, withheld = trial.recall.offered, len(trial.recall.withheld)
    shown = offered[: shorten.detail.recalled]
    items = [element("li", f"{shorten(item.lesson.text)} ({item.similarity:.2f})") for item in shown]
    if len(shown) < len(offered):
        items.append(element("li", f"and {len(offered) - len(shown)} more"))
    name = "Lessons recalled" + (f", {withheld} withheld by chance" if withheld else "")
    return _titled(name, element("ul", items, class_="text"))


def _steps(trial: Trial, shorten: Shortener) -> Html | None:
    steps = trial.attempt.steps
    shown = steps[-shorten.detail.steps :] if shorten.detail.steps else ()
    if not shown:
        return None
    first = len(steps) - len(shown) + 1
    items = (element("li", _step(step, shorten), class_="failed" if step.failed else None) for step in shown)
    name = "Steps" + (f", from step {first} of {len(steps)}" if first > 1 else "")
    return _titled(name, element("ol", items, class_="text", start=first if first > 1 else None))


def _step(step: Step, shorten: Shortener) -> Iterator[Html]:
    for name, part in (("i", step.thought), ("b", step.action), ("span", step.observation)):
        if part:
            yield element(name, shorten(part))


def _verdict(judge: JudgedBy, verdict: Evaluation, shorten: Shortener) -> Html:
    criteria = [f"{name} {score:.2f}" for name, score in verdict.criteria_scores.items()]
    errors = [f"{error.path}: {error.message}" if error.path else error.message for error in verdict.errors]
    who = "agent's own side" if judge == "self" else "oracle"
    head = element("h5", f"Verdict of the {who}: {_score(verdict)}")
    found = _items([*criteria, *verdict.issues, *errors], shorten)
    return joined([head, _text("p", shorten(verdict.rationale)), found])


def _lesson(trial: Trial, shorten: Shortener) -> Html | None:
    if trial.reflection is None:
        return None
    fields = [f"{name}: {said}" for name, said in trial.reflection.fields.items() if said]
    head = element("h5", "Lesson written")
    return joined([head, _text("p", shorten(trial.reflection.lesson)), _items(fields, shorten)])


def _titled(name: str, body: Html | None) -> Html | None:
    return None if body is None else joined([element("h5", name), body])


def _items(texts: Iterable[str], shorten: Shortener) -> Html | None:
    items = [element("li", shorten(told)) for told in texts]
    return element("ul", items, class_="text") if items else None


def _text(tag: str, told: str) -> Html | None:
    return element(tag, told, class_="text") if told.strip() else None
