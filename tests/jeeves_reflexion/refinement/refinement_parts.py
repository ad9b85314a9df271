"""Small writers, judges and revisers for the tests of the inner loop."""

from __future__ import annotations

from jeeves_reflexion import Attempt, Evaluation, Refinement, RefinementOptions, Session, Task, Usage
from jeeves_reflexion.drafts import Revision, RevisionRequest

TASK = Task("Write a haiku about rivers.")

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo")


def text(number: int) -> str:
    """Return a text that no other number's resembles."""
    return f"{WORDS[number % len(WORDS)]} {number * 7919} stands alone in version {WORDS[-1 - number % 7]}"


class Author:
    """An agent that gives one output, or raises."""

    name = "author"

    def __init__(self, output: str | Attempt | Exception = "first draft", tokens: int = 0) -> None:
        self.output = output
        self.tokens = tokens
        self.tasks: list[Task] = []

    async def __call__(self, task: Task, session: Session) -> Attempt:
        self.tasks.append(task)
        if isinstance(self.output, Exception):
            raise self.output
        if isinstance(self.output, Attempt):
            return self.output
        return Attempt(self.output, usage=used(self.tokens))


class Judge:
    """An evaluator that gives a script of scores, verdicts or errors, the last one again; keeps what it judged."""

    def __init__(self, *verdicts: float | Evaluation | Exception | None, tokens: int = 0) -> None:
        self.verdicts = verdicts
        self.tokens = tokens
        self.judged: list[str] = []

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        verdict = self.verdicts[min(len(self.judged), len(self.verdicts) - 1)]
        self.judged.append(attempt.output)
        if isinstance(verdict, Exception):
            raise verdict
        if isinstance(verdict, Evaluation):
            return verdict
        issues = (f"{text(len(self.judged))} is missing",)
        return Evaluation(verdict, issues=issues, usage=used(self.tokens))


class Editor:
    """A reviser that writes a new text each time, or what a script says; keeps its requests."""

    def __init__(self, *outputs: str | Exception, tokens: int = 0) -> None:
        self.outputs = outputs
        self.tokens = tokens
        self.requests: list[RevisionRequest] = []

    async def __call__(self, task: Task, request: RevisionRequest) -> Revision:
        self.requests.append(request)
        number = len(self.requests)
        output = self.outputs[min(number, len(self.outputs)) - 1] if self.outputs else text(number)
        if isinstance(output, Exception):
            raise output
        return Revision(
            output, "full_rewrite", "scripted", addressed=request.feedback.issues, usage=used(self.tokens)
        )


def used(tokens: int) -> Usage:
    return Usage(calls=1 if tokens else 0, input_tokens=tokens)


def loop(
    judge: Judge,
    *,
    author: Author | None = None,
    editor: Editor | None = None,
    max_drafts: int = 4,
    threshold: float = 0.8,
    options: RefinementOptions | None = None,
) -> Refinement:
    return Refinement(
        author or Author(),
        evaluator=judge,
        reviser=editor or Editor(),
        max_drafts=max_drafts,
        threshold=threshold,
        options=options,
    )
