"""How a model is asked for its judgement of a text, and asked again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from jeeves_reflexion.evaluators.replies import read_replies, read_reply
from jeeves_reflexion.models.ask import ask
from jeeves_reflexion.protocols import ChatModel, Completion, Message, Sampling
from jeeves_reflexion.text import bullets, read_prompt
from jeeves_reflexion.types import JSON, NO_USAGE, Evaluation

STEADY = Sampling(temperature=0.0, seed=0)
"""How a judge is asked: the same text gets the same score, as far as the model can."""

_SHARE: Mapping[str, JSON] = {"type": "number", "minimum": 0, "maximum": 1}
_LIST: Mapping[str, JSON] = {"type": "array", "items": {"type": "string"}}


def object_schema(properties: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the JSON Schema of an object that has just these properties, all of them."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


# The rationale stands first: a score is better for having been reasoned out before it is written.
_VERDICT: Mapping[str, JSON] = object_schema(
    {
        "rationale": {"type": "string"},
        "score": _SHARE,
        "confidence": _SHARE,
        "issues": _LIST,
        "suggestions": _LIST,
    }
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a criterion is called and what it measures."""

    name: str
    description: str


class CriteriaJudge:
    """Asks a model to judge an output by one criterion, or by several at once.

    ``prompt`` replaces the instructions, as a text or a file; what it says for ``$criteria`` is the list of those
    asked about. The form of the answer, and that the material is no instruction, is said after it in any case.
    """

    def __init__(
        self, model: ChatModel, *, structured: bool = True, prompt: str | Path | None = None
    ) -> None:
        self._model = model
        self._structured = structured
        self._prompt = Template(_read("criteria.md", prompt))
        self._question = Template(_read("question.md"))

    async def __call__(
        self,
        criteria: Sequence[Asked],
        shown: str,
        sampling: Sampling = STEADY,
        *,
        judged: Sequence[str] = (),
    ) -> dict[str, Evaluation]:
        """Return a verdict by name; one that can't be read, also after a second try, has no score.

        ``shown`` is the material as the model sees it, ``judged`` the texts in it that are judged.
        The usage of the calls stands in the first verdict. Raises ``ModelError``.
        """
        listed = bullets([f"{each.name}: {each.description}" for each in criteria])
        several = len(criteria) > 1
        which = "each of these criteria by itself" if several else "this criterion alone"
        question = self._question.safe_substitute(which=which, criteria=listed)
        messages = [
            Message("system", self._system(listed, several=several)),
            # The criterion comes last, so that an endpoint can keep what all criteria have in common.
            Message("user", f"{shown}\n\n{question}"),
        ]
        schema = _schema(criteria) if self._structured else None
        names = [each.name for each in criteria]
        verdicts: dict[str, Evaluation] = {}
        usage = NO_USAGE
        for _ in range(2):
            completion = await ask(self._model, messages, schema=schema, sampling=sampling)
            usage += completion.usage
            if several:
                read = read_replies(completion.text, names, shown=judged)
            else:
                read = {names[0]: read_reply(completion.text, shown=judged, in_json=self._structured)}
            kept = {name for name, one in verdicts.items() if one.score is not None}
            verdicts |= {name: one for name, one in read.items() if one.score is not None or name not in kept}
            problems = {name: one.rationale for name, one in verdicts.items() if one.score is None}
            if not problems:
                break
            messages += again(
                completion,
                "; ".join(f"{n}: {p}" for n, p in problems.items()) if several else problems[names[0]],
            )
        first = names[0]
        return {**verdicts, first: replace(verdicts[first], usage=usage)}

    def _system(self, listed: str, *, several: bool) -> str:
        form = f"form_{'json' if self._structured else 'prose'}{'_each' if several else ''}.md"
        own = self._prompt.safe_substitute(criteria=listed)
        return "\n\n".join((own, _read("criteria_rules.md"), _read(form)))


def again(completion: Completion, problem: str) -> list[Message]:
    """Return the messages that show a model the problem of its answer and ask for another."""
    cut = ", for it was cut off: be brief" if completion.finish_reason == "length" else ""
    return [
        Message("assistant", completion.text),
        Message(
            "user",
            f"Your answer can't be used: {problem}{cut}. Answer again, in the form that was asked for.",
        ),
    ]


def _read(name: str, given: str | Path | None = None) -> str:
    return read_prompt(given, "jeeves_reflexion.evaluators", name)


def _schema(criteria: Sequence[Asked]) -> Mapping[str, JSON]:
    if len(criteria) == 1:
        return _VERDICT
    return object_schema({"criteria": object_schema({each.name: _VERDICT for each in criteria})})
