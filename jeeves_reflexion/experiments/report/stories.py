"""Each task's story, to be opened: what every arm tried, what was recalled for it, and what was said of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.plan import JudgedBy
from jeeves_reflexion.experiments.report.html import Html, element, joined
from jeeves_reflexion.experiments.results import Results, Split, Tried
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.types import Evaluation, Step, Task

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
    head = element("h4", f"Trial {row.trial.number}: {_facts(results, row)}")
    told = "\n\n".join(_told(results, row, shorten))
    state = "good" if row.trial.passed else "bad"
    return element("section", head, element("pre", told, class_="text"), class_=f"try {state}")


def _facts(results: Results, row: Tried) -> str:
    trial, used = row.trial, row.usage
    told = ["passed" if trial.passed else "failed"]
    if row.scored is not None and len(results.judges) > 1:
        told.append(f"the scorer says {'right' if row.scored.passed else 'wrong'}")
    told += [_score(trial.evaluation), f"{len(trial.attempt.steps)} steps", f"{trial.seconds:.1f} s"]
    least = "at least " if used.unreported else ""
    told.append(f"{least}{used.tokens} tokens" if used.calls > used.unreported else "tokens unknown")
    return ", ".join(told)


def _score(verdict: Evaluation) -> str:
    return "not scored" if verdict.score is None else f"score {verdict.score:.2f}"


def _told(results: Results, row: Tried, shorten: Shortener) -> Iterator[str]:
    """Tell of a try in paragraphs: what was recalled, done, answered, judged and learned."""
    trial, attempt, gold, detail = row.trial, row.trial.attempt, row.task.reference, shorten.detail
    if trial.recall is not None and (trial.recall.offered or trial.recall.withheld):
        offered, withheld = trial.recall.offered, len(trial.recall.withheld)
        lessons = [f"{each.lesson.text} ({each.similarity:.2f})" for each in offered[: detail.recalled]]
        more = [f"and {len(offered) - len(lessons)} more"] if len(lessons) < len(offered) else []
        by_chance = f", {withheld} withheld by chance" if withheld else ""
        yield _listed(f"Lessons recalled{by_chance}", [*lessons, *more], shorten)
    if steps := attempt.steps[-detail.steps :] if detail.steps else ():
        first = len(attempt.steps) - len(steps) + 1
        lines = [
            f"{number}. " + "\n   ".join(shorten(said) for said in _parts(step))
            for number, step in enumerate(steps, first)
        ]
        yield "\n".join(["Steps", *lines])
    for name, said in (
        ("Output", attempt.output),
        ("Error", attempt.error),
        ("Ended early", attempt.interrupted),
    ):
        if said and said.strip():
            yield f"{name}\n{shorten(said)}"
    yield _verdict(results.judged_by, trial.evaluation.public(gold), shorten)
    if row.scored is not None and len(results.judges) > 1:
        yield _verdict("oracle", row.scored.public(gold), shorten)
    if trial.reflection is not None:
        fields = [f"{name}: {said}" for name, said in trial.reflection.fields.items() if said]
        yield _listed(f"Lesson written\n{shorten(trial.reflection.lesson)}", fields, shorten)
    if trial.problems:
        yield _listed("Problems", trial.problems, shorten)


def _parts(step: Step) -> Iterator[str]:
    failed = " (failed)" if step.failed else ""
    for part in (step.thought, step.action and f"> {step.action}{failed}", step.observation):
        if part:
            yield part


def _verdict(judge: JudgedBy, verdict: Evaluation, shorten: Shortener) -> str:
    criteria = [f"{name} {score:.2f}" for name, score in verdict.criteria_scores.items()]
    errors = [f"{error.path}: {error.message}" if error.path else error.message for error in verdict.errors]
    who = "agent's own side" if judge == "self" else "oracle"
    said = [shorten(verdict.rationale)] if verdict.rationale.strip() else []
    head = "\n".join([f"Verdict of the {who}: {_score(verdict)}", *said])
    return _listed(head, [*criteria, *verdict.issues, *errors], shorten)


def _listed(head: str, texts: Iterable[str], shorten: Shortener) -> str:
    return "\n".join([head, *(f"- {shorten(told)}" for told in texts)])
