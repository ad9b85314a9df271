"""``reflection.loop``: generate, evaluate, correct, until an output is valid or the attempts are used up.

It is the inner loop (:class:`~jeeves_reflexion.refinement.loop.Refinement`) without its convergence checks: the
generator is its agent, the corrector its reviser, and a draft is an attempt. A corrected output is what is judged next.
Drafts carry text; the values that the outputs are stand beside them here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from jeeves_reflexion.drafts import Revision, RevisionRequest
from jeeves_reflexion.events import Warned
from jeeves_reflexion.refinement.loop import Refinement
from jeeves_reflexion.refinement.options import RefinementOptions
from jeeves_reflexion.session import Session, logger
from jeeves_reflexion.text import abridge
from jeeves_reflexion.types import JSON, Attempt, Task
from jeeves_reflexion.types import Evaluation as EngineVerdict
from jeeves_reflexion.workflows.errors import ReflectionFailedError
from jeeves_reflexion.workflows.judges import judge
from jeeves_reflexion.workflows.parts import CONTROL_KEYS, Evaluation, OnFailure, Step
from jeeves_reflexion.workflows.steps import output_of
from jeeves_reflexion.workflows.toolbox import FATAL, Toolbox
from jeeves_reflexion.workflows.values import State, text_of
from jeeves_reflexion.workflows.verdicts import Verdict, refusal


@dataclass(frozen=True, slots=True)
class Order:
    """What a loop is to do; its parts were checked."""

    generator: Step
    evaluator: Evaluation
    corrector: Step | None
    max_iterations: int
    on_failure: OnFailure


@dataclass(slots=True)
class _Entry:
    """One attempt; ``produced`` is false where there was no output to judge."""

    output: JSON
    verdict: Verdict
    produced: bool

    @property
    def rank(self) -> tuple[bool, bool, float, int]:
        verdict = self.verdict
        return verdict.valid, verdict.made, verdict.score, -len(verdict.errors)

    def as_json(self, iteration: int) -> dict[str, JSON]:
        return {
            "iteration": iteration,
            "output": self.output,
            "score": self.verdict.score,
            "valid": self.verdict.valid,
            "errors": self.verdict.error_list(),
        }


@dataclass(slots=True)
class _Run:
    order: Order
    given: State
    toolbox: Toolbox
    entries: list[_Entry] = field(default_factory=list)
    output: JSON = None
    problem: str = ""

    async def go(self) -> dict[str, JSON]:
        most = self.order.max_iterations
        # Each part keeps its own time; the engine's clock is for what they forget. A corrector gets the latest output.
        options = RefinementOptions(
            convergence=None, base="latest", timeout=3 * self.toolbox.tools.step_seconds + 60
        )
        engine = Refinement(
            self.generate, evaluator=self.evaluate, reviser=self.correct, max_drafts=most, options=options
        )
        refined = await engine.refine(Task("reflection.loop"), self.toolbox.session)
        if refined.error is not None:
            raise refined.error
        return self.result()

    # -- the parts of the inner loop

    async def generate(self, task: Task, session: Session) -> Attempt:
        """Write an output. A generator that crashes has used up the attempt."""
        await self._attempt("generator", lambda: output_of(self.order.generator, self.state(), self.toolbox))
        return Attempt(text_of(self.output), error=self.problem or None)

    async def evaluate(self, task: Task, attempt: Attempt) -> EngineVerdict:
        """Judge the current output, which may come out of it coerced."""
        if self.problem:
            verdict = refusal(self.problem)
        else:
            state = {**self.state(), "reflection_output": self.output}
            verdict = await judge(self.order.evaluator, self.output, state, self.toolbox)
        self.entries.append(_Entry(verdict.output, verdict, produced=not self.problem))
        return verdict.as_evaluation()

    async def correct(self, task: Task, request: RevisionRequest) -> Revision:
        """Correct the latest output; without a corrector, or if it fails, generate again."""
        why, last, corrector = "the generator was asked again", self.entries[-1], self.order.corrector
        if corrector is not None and last.produced:
            state = {**self.state(), "reflection_iteration": len(self.entries)}
            extra: dict[str, JSON] = {"output": last.output, "errors": last.verdict.error_list()}
            await self._attempt("corrector", lambda: output_of(corrector, state, self.toolbox, extra=extra))
            if not self.problem:
                return Revision(text_of(self.output), "full_rewrite", "corrected")
            await self._warn(self.problem)
            why = f"{why}: {self.problem}"
        await self.generate(task, self.toolbox.session)
        return Revision(text_of(self.output), "full_rewrite", why)

    async def _attempt(self, who: str, call: Callable[[], Awaitable[JSON]]) -> None:
        self.output, self.problem = None, ""
        try:
            self.output = await self.toolbox.in_time(call)
        except FATAL:
            raise
        except Exception as error:  # noqa: BLE001 - it is recorded as an attempt
            self.problem = f"the {who} failed: {type(error).__name__}: {error}"

    async def _warn(self, message: str) -> None:
        session = self.toolbox.session
        logger.warning("run %s: a corrector failed, the generator is asked again", session.id)
        await session.emit(Warned(run_id=session.id, attempt=session.attempt, message=message))

    # -- what is told of it

    def best(self) -> _Entry | None:
        """Return the best output so far.

        A valid one comes first, then one that was judged at all, the higher score, the fewer errors (by a schema, all
        that fails scores 0), and the later attempt.
        """
        produced = [entry for entry in reversed(self.entries) if entry.produced]
        return max(produced, key=lambda entry: entry.rank, default=None)

    def tracking(self, shown: _Entry | None) -> dict[str, JSON]:
        """Return the loop's state variables; ``shown`` is the attempt whose output and errors they hold."""
        best = self.best()
        return {
            "reflection_iteration": len(self.entries),
            "reflection_output": None if shown is None else shown.output,
            "reflection_errors": [] if shown is None else shown.verdict.error_list(),
            "reflection_history": self.history(),
            "reflection_best": None if best is None else best.output,
            "reflection_best_score": 0.0 if best is None else best.verdict.score,
        }

    def state(self) -> dict[str, JSON]:
        """Return the state as the next part sees it: the iteration under way, the errors of the one before."""
        last = self.entries[-1] if self.entries else None
        tracked = self.tracking(last)
        tracked["reflection_iteration"] = len(self.entries) + 1
        return {**self.given, **tracked}

    def history(self) -> list[dict[str, JSON]]:
        """Return all attempts so far, oldest first."""
        return [entry.as_json(number) for number, entry in enumerate(self.entries, 1)]

    def result(self) -> dict[str, JSON]:
        """Return what the loop comes to; raises where it failed and is to raise."""
        last = self.entries[-1]
        if last.verdict.valid:
            return with_output({"success": True, "valid": True, **self.tracking(last)}, last.output)
        if self.order.on_failure == "raise":
            count = len(self.entries)
            errors = abridge("; ".join(error.message for error in last.verdict.errors[:3]), 300)
            raise ReflectionFailedError(
                f"no output was valid after {count} {'attempt' if count == 1 else 'attempts'}; the last one: {errors}",
                self.history(),
            )
        chosen = last if self.order.on_failure == "return_last" else self.best() or last
        failed = {"success": False, "valid": False, "exhausted": True, **self.tracking(chosen)}
        return with_output(failed, chosen.output)


def with_output(result: dict[str, JSON], output: JSON) -> dict[str, JSON]:
    """Add the keys of an output that is an object, but none that the loop itself sets."""
    if isinstance(output, Mapping):
        result.update({key: item for key, item in output.items() if key not in CONTROL_KEYS})
    return result


async def run_loop(order: Order, state: State, toolbox: Toolbox) -> dict[str, JSON]:
    """Run a loop; see :func:`jeeves_reflexion.workflows.reflection_loop`."""
    return await _Run(order, state, toolbox).go()
