"""How a task is reflected on: by the user's own strategy, or by a language model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from jeeves_reflexion.errors import ConfigurationError, described
from jeeves_reflexion.evaluators.replies import field_list
from jeeves_reflexion.lessons.screening.characters import inert
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.models.fields import RULE, items, read_fields, says_nothing
from jeeves_reflexion.models.replies import unwrapped
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling
from jeeves_reflexion.redaction import redact
from jeeves_reflexion.session import logger
from jeeves_reflexion.tasknotes.values import FAILED, ReflectionInput, ReflectionStrategy, TaskReflection
from jeeves_reflexion.text import bullets, cut_middle, fence, one_line, read_prompt
from jeeves_reflexion.types import JSON

SECTIONS: Final = ("refined_description", "refined_expected_output", "observations", "suggestions")
_NAMES: Final = {
    **dict(zip(SECTIONS, SECTIONS, strict=True)),
    "observation": "observations",
    "suggestion": "suggestions",
}
_TEXT: Final[JSON] = {"type": "string"}
_LIST: Final[JSON] = {"type": "array", "items": _TEXT}
SCHEMA: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": dict(zip(SECTIONS, (_TEXT, _TEXT, _LIST, _LIST), strict=True)),
    "required": [*SECTIONS],
    "additionalProperties": False,
}
OUTPUT_TOKENS: Final = 6000
"""How much of the output the model sees."""
_FIRST: Final = "None: this is the first run."
_STEADY: Final = Sampling(temperature=0.0)
_CALL_FAILED: Final = "LLM call failed"


# The default is not None: an explicit None is a mistake, such as a model that was never made.
_LEFT_OUT: Final[Any] = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionConfig:
    """How a task is reflected on.

    ``model`` writes the reflection; by default the task's own model does. ``prompt`` replaces its instructions: a text,
    or a file as a :class:`~pathlib.Path`, which is read at once. ``strategy`` replaces both: any object with
    ``reflect(given)``, sync or async. If all are given, the strategy counts. Raises :class:`ConfigurationError` for
    None or a value of another type.
    """

    model: ChatModel | None = _LEFT_OUT
    strategy: ReflectionStrategy | None = _LEFT_OUT
    prompt: str | Path | None = _LEFT_OUT

    def __post_init__(self) -> None:
        for name, kind, wanted in (
            ("model", ChatModel, "ChatModel"),
            ("strategy", ReflectionStrategy, "ReflectionStrategy"),
            ("prompt", (str, Path), "text or a file with one"),
        ):
            value = getattr(self, name)
            if value is _LEFT_OUT:
                object.__setattr__(self, name, None)
            elif isinstance(value, type) or not isinstance(value, kind):
                raise ConfigurationError(
                    f"{name} must be a {wanted}, not {value!r}: leave it out for the default"
                )
        if self.prompt is not None:
            text = read_prompt(self.prompt, "jeeves_reflexion.tasknotes", "reflection.md")
            if not text.strip():
                raise ConfigurationError("prompt is empty: leave it out for the default")
            object.__setattr__(self, "prompt", text)


def as_config(reflect: object) -> ReflectionConfig | None:
    """Return the configuration that ``reflect`` stands for; None for no reflection."""
    if isinstance(reflect, bool):
        return DEFAULT_REFLECTION if reflect else None
    if not isinstance(reflect, ReflectionConfig):
        raise ConfigurationError(f"reflect must be True, False or a ReflectionConfig, not {reflect!r}")
    return reflect


DEFAULT_REFLECTION: Final = ReflectionConfig()
"""The configuration for ``reflect=True``."""


class LlmReflectionStrategy:
    """Asks a model for a better version of the instructions, as JSON if the model supports that.

    A reply without any of the four sections is asked for once more, with the problem shown. A missing description or
    expected output is taken from the prior reflection, else from the task. If the model fails or can't be understood,
    nothing is raised: the returned :class:`TaskReflection` says so in its observations and in ``failure``. ``prompt``
    replaces the instructions with a text or a file.
    """

    def __init__(self, model: ChatModel, *, prompt: str | Path | None = None) -> None:
        if not isinstance(model, ChatModel):
            raise ConfigurationError(f"model must be a ChatModel, not {type(model).__name__}")
        self.model = model
        self._system = Message("system", read_prompt(prompt, "jeeves_reflexion.tasknotes", "reflection.md"))

    async def reflect(self, given: ReflectionInput) -> TaskReflection:
        """Return the reflection on an accepted run."""

        def read(completion: Completion) -> tuple[Sections, str]:
            sections = read_sections(completion.text)
            return sections, "" if any(sections) else "it has none of the four sections"

        try:
            messages = [self._system, Message("user", material(given))]
            call = partial(ask, self.model, schema=SCHEMA, sampling=_STEADY)
            sections, _ = await ask_and_read(call, messages, read)
        except Exception as error:  # noqa: BLE001 - no error may take back that the run was accepted
            logger.warning("reflection on a task failed: %s", redact(described(error)))
            return failed_reflection(given, f"{_CALL_FAILED} ({described(error)})")
        if not any(sections):
            return failed_reflection(
                given, "the reply could not be read: none of the four sections was in it"
            )

        prior = given.prior_reflection
        texts = (given.description, given.expected_output) if prior is None else prior.texts[:2]
        description, expected = (new or old for new, old in zip(sections[:2], texts, strict=True))
        parts = (description, expected, sections.observations, sections.suggestions)
        if prior is None:
            return TaskReflection.of_first_run(*parts)
        return TaskReflection.from_prior(prior, *parts)


class Sections(NamedTuple):
    """The four sections of a reply; missing ones are empty."""

    refined_description: str = ""
    refined_expected_output: str = ""
    observations: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()


def read_sections(text: str) -> Sections:
    """Read a reply: JSON, or prose with the names of the sections as headings."""
    fields = read_fields(text, _NAMES)
    texts = []
    for name in SECTIONS[:2]:
        value = fields.get(name)
        if isinstance(value, list):
            value = "\n".join(item for item in value if isinstance(item, str))
        lines = value.splitlines() if isinstance(value, str) else []
        while lines and (not lines[-1].strip() or RULE.match(lines[-1])):
            lines.pop()
        whole = unwrapped("\n".join(lines))
        texts.append("" if says_nothing(whole) else whole)
    lists = []
    for name in SECTIONS[2:]:
        value = fields.get(name)
        lists.append(items(value.splitlines()) if isinstance(value, str) else field_list(fields, name))
    return Sections(texts[0], texts[1], lists[0], lists[1])


def material(given: ReflectionInput) -> str:
    """Return what a model sees of a run, each part in a fence that its text can't close."""
    parts = [fence("task_description", given.description)]
    if given.task.prompt != given.description:
        parts.append(fence("task_of_this_run", given.task.prompt))
    parts.append(fence("expected_output", given.expected_output or "Nothing is said of it."))
    parts.append(fence("output", cut_middle(given.task_output, OUTPUT_TOKENS)))
    verdict = given.evaluation
    if verdict is not None:
        score = "no score" if verdict.score is None else f"score {verdict.score:.2f}"
        faults = bullets([*verdict.faults, *verdict.suggestions])
        parts.append(fence("verdict", "\n".join(part for part in (score, verdict.rationale, faults) if part)))
    prior = given.prior_reflection
    notes = _FIRST
    if prior is not None:
        texts = (*prior.texts[:2], bullets(prior.observations), bullets(prior.suggestions))
        notes = "\n\n".join(filter(None, texts)) or _FIRST
    parts.append(fence("earlier_notes", inert(notes)))
    return "\n\n".join(parts)


def failed_reflection(given: ReflectionInput, reason: str) -> TaskReflection:
    """Return the record of a failed reflection: the task's own texts, and the reason. It is not counted as a run."""
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


def strategy_of(config: ReflectionConfig, model: ChatModel | None) -> ReflectionStrategy:
    """Return the configured strategy, else :class:`LlmReflectionStrategy` with the configured or the given model."""
    if config.strategy is not None:
        return config.strategy
    chosen = config.model or model
    if chosen is None:
        raise ConfigurationError(
            "there is no model to reflect on a task: pass ReflectionConfig(model=...) or (strategy=...), or give the "
            "ensemble a model"
        )
    return LlmReflectionStrategy(chosen, prompt=config.prompt)
