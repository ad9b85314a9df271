"""Has a language model reflect on an accepted run (seed 000, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from jeeves_reflexion.errors import ConfigurationError, described
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Message, Sampling
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import logger
from jeeves_reflexion.tasknotes.parsing import SECTIONS, Sections, read_sections
from jeeves_reflexion.tasknotes.values import FAILED, ReflectionInput, TaskReflection
from jeeves_reflexion.text import bullets, cut_middle, fence, one_line, read_prompt
from jeeves_reflexion.types import JSON

_LIST: Final[JSON] = {"type": "array", "items": {"type": "string"}}
SCHEMA: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "refined_description": {"type": "string"},
        "refined_expected_output": {"type": "string"},
        "observations": _LIST,
        "suggestions": _LIST,
    },
    "required": [*SECTIONS],
    "additionalProperties": False,
}
_FIRST: Final = "None: this is the first run."
_STEADY: Final = Sampling(temperature=0.0)
_CALL_FAILED: Final = "LLM call failed"


class LlmReflectionStrategy:
    """Asks a model for a better version of the instructions, as JSON where the model offers that.

    A reply without any of the four sections is asked for once more, with the problem shown. A section that is missing
    is taken from the prior reflection, else from the task. When the model fails or can't be understood, nothing is
    raised: a :class:`TaskReflection` comes back that says so in its observations and in ``failure``. ``prompt`` is
    a text or a file in place of the instructions; ``output_tokens`` is how much of the output the model sees.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: str | Path | None = None,
        structured: bool = True,
        output_tokens: int = 6000,
    ) -> None:
        if not isinstance(model, ChatModel):
            raise ConfigurationError(f"model must be a ChatModel, not {type(model).__name__}")
        if output_tokens < 1:
            raise ConfigurationError(f"output_tokens must be at least 1, not {output_tokens}")
        self.model = model
        self._system = Message("system", read_prompt(prompt, "jeeves_reflexion.tasknotes", "reflection.md"))
        self._schema = SCHEMA if structured else None
        self._tokens = output_tokens

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        """Return the reflection on an accepted run."""
        try:
            sections = await self._ask(given)
        except Exception as error:  # noqa: BLE001 - whatever it is, a run that was accepted stays accepted
            logger.warning("reflection on a task failed: %s", redact(described(error)))
            return failed_reflection(given, f"{_CALL_FAILED} ({described(error)})")
        if not sections.readable:
            return failed_reflection(
                given, "the reply could not be read: none of the four sections was in it"
            )
        return _reflection(given, sections)

    async def _ask(self, given: ReflectionInput) -> Sections:
        messages = [self._system, Message("user", material(given, self._tokens))]
        sections = Sections()
        for _ in range(2):
            completion = await ask(self.model, messages, schema=self._schema, sampling=_STEADY)
            sections = read_sections(completion.text)
            if sections.readable:
                break
            problem = (
                "Your answer can't be used: it has none of the four sections. Answer in the form asked for."
            )
            messages += [Message("assistant", completion.text), Message("user", problem)]
        return sections


def material(given: ReflectionInput, output_tokens: int) -> str:
    """Return what a model is shown of a run, each part in a fence that nothing in it can close."""
    parts = [fence("task_description", given.description)]
    if given.task.prompt != given.description:
        parts.append(fence("task_of_this_run", given.task.prompt))
    parts.append(fence("expected_output", given.expected_output or "Nothing is said of it."))
    parts.append(fence("output", cut_middle(given.task_output, output_tokens)))
    verdict = given.evaluation
    if verdict is not None:
        score = "no score" if verdict.score is None else f"score {verdict.score:.2f}"
        faults = bullets([*verdict.issues, *verdict.suggestions])
        parts.append(fence("verdict", "\n".join(part for part in (score, verdict.rationale, faults) if part)))
    parts.append(fence("earlier_notes", inert(_earlier(given.prior_reflection))))
    return "\n\n".join(parts)


def _earlier(prior: TaskReflection | None) -> str:
    if prior is None:
        return _FIRST
    return "\n\n".join(
        part
        for part in (
            prior.refined_description,
            prior.refined_expected_output,
            bullets(prior.observations),
            bullets(prior.suggestions),
        )
        if part
    )


def _reflection(given: ReflectionInput, sections: Sections) -> TaskReflection:
    prior = given.prior_reflection
    description = sections.refined_description or (prior.refined_description if prior else given.description)
    expected = sections.refined_expected_output or (
        prior.refined_expected_output if prior else given.expected_output
    )
    parts = (description, expected, sections.observations, sections.suggestions)
    return TaskReflection.of_first_run(*parts) if prior is None else TaskReflection.from_prior(prior, *parts)


def failed_reflection(given: ReflectionInput, reason: str) -> TaskReflection:
    """Return the record that a reflection could not be made: the task's own texts, and why. It counts nothing."""
    prior = given.prior_reflection
    reason = one_line(redact(reason))[:500]
    now = datetime.now(UTC)
    return TaskReflection(
        given.description,
        given.expected_output,
        (f"{FAILED}: {reason}",),
        (),
        now if prior is None else max(now, prior.reflected_at),
        1 if prior is None else prior.run_count,
        failure=reason,
    )
