"""How much of each try a page shows, so that it stays a page that a browser opens at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from jeeves_reflexion.experiments.results import Tried
from jeeves_reflexion.redaction import redact

MAX_STORY_CHARACTERS: Final = 12_000_000
"""So many characters of tries are shown at most, about: a browser opens that within a second or two."""

_MARKUP: Final = 450
"""What a try costs in elements, about, and a step or a lesson a tenth of it."""


@dataclass(frozen=True, slots=True)
class Detail:
    """How much is shown: the last ``steps`` of a try, ``characters`` of each text, the best ``recalled`` lessons."""

    steps: int
    characters: int
    recalled: int

    def of(self, row: Tried) -> int:
        """Return about how many characters a try takes."""
        trial = row.trial
        attempt, verdict = trial.attempt, trial.evaluation
        shown = attempt.steps[-self.steps :] if self.steps else ()
        texts = [attempt.output, attempt.error or "", verdict.rationale, *verdict.issues, *trial.problems]
        texts += [part for step in shown for part in (step.thought, step.action, step.observation)]
        offered = trial.recall.offered[: self.recalled] if trial.recall else ()
        texts += [item.lesson.text for item in offered]
        if trial.reflection:
            texts += [trial.reflection.lesson, *trial.reflection.fields.values()]
        letters = sum(min(len(each), self.characters) for each in texts)
        return letters + _MARKUP + (len(shown) + len(offered)) * _MARKUP // 10

    def __str__(self) -> str:
        return (
            f"Of each try the last {self.steps} steps are shown, of each text at most {self.characters} characters,"
            f" and the first {self.recalled} of the lessons recalled; the journal of the run has all of it."
        )


DETAILS: Final = (
    Detail(200, 8000, 50),
    Detail(50, 2000, 20),
    Detail(20, 1000, 10),
    Detail(12, 600, 5),
    Detail(8, 500, 5),
    Detail(4, 300, 5),
    Detail(2, 200, 3),
    Detail(0, 160, 2),
)


def fitting(rows: Iterable[Tried], room: int = MAX_STORY_CHARACTERS) -> Detail:
    """Return the most detail with which the tries have room; the least there is, if none is little enough."""
    known = list(rows)
    return next((each for each in DETAILS if sum(map(each.of, known)) <= room), DETAILS[-1])


@dataclass(slots=True)
class Shortener:
    """Takes secrets out of texts and cuts them; the same text is looked at once."""

    detail: Detail
    _known: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """Return the text without secrets, with its beginning and its end where it is too long."""
        return self.cut(text, self.detail.characters)

    def cut(self, text: str, characters: int) -> str:
        """Do so with another limit."""
        # Secrets are looked for in far more than is shown, since half of one is not known as one any more.
        if len(text) > 4 * characters + 4000:
            half = 2 * characters + 2000
            text = f"{text[:half]} [... {len(text) - 2 * half} characters cut ...] {text[-half:]}"
        clean = self._known.get(text)
        if clean is None:
            clean = self._known[text] = redact(text)
        if len(clean) <= characters:
            return clean
        head = characters * 2 // 3
        tail = characters - head
        return f"{clean[:head]} [... {len(clean) - characters} characters cut ...] {clean[-tail:]}"

    def all(self, texts: Iterable[str]) -> Iterator[str]:
        """Do so with several texts."""
        return map(self, texts)
