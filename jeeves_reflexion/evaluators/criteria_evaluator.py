"""Judges an output criterion by criterion."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from string import Template

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators.compare import Comparison
from jeeves_reflexion.evaluators.criteria import QualityCriterion, as_criteria, check_of
from jeeves_reflexion.evaluators.function import FunctionCheck
from jeeves_reflexion.evaluators.material import (
    OUTPUT_TOKENS,
    SHARE,
    STEADY,
    TEXT_LIST,
    TEXTS,
    TRAJECTORY_TOKENS,
    judged,
    material,
    object_schema,
)
from jeeves_reflexion.evaluators.overall import EXTERNAL, Scored, conclude
from jeeves_reflexion.evaluators.panel import median_of, side_by_side
from jeeves_reflexion.evaluators.replies import read_replies, read_reply
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.protocols import ChatModel, Completion, Evaluator, Message, Sampling
from jeeves_reflexion.text import bullets, read_prompt
from jeeves_reflexion.types import JSON, Attempt, Evaluation, Task
from jeeves_reflexion.values import check_share, check_whole

PANEL_TEMPERATURE = 0.5
"""What the members of a panel are asked at: at 0 they would all say the same, and their spread would say nothing."""

# The rationale stands first: a score is better for having been reasoned out before it is written.
_VERDICT: Mapping[str, JSON] = object_schema(
    {
        "rationale": {"type": "string"},
        "score": SHARE,
        "confidence": SHARE,
        "issues": TEXT_LIST,
        "suggestions": TEXT_LIST,
    }
)


@dataclass(eq=False)
class CriteriaEvaluator:
    """Scores an output by several criteria, each by itself and all at the same time, and computes the overall score.

    - ``criteria``: names, :class:`QualityCriterion` objects, or both; ``None`` takes the set of the task's kind. They
      are copied: changing one afterwards changes nothing here.
    - ``model`` judges the criteria of the kinds ``llm`` and ``compare``: one call for each, or one for all ``llm``
      criteria where ``together`` saves tokens. ``structured`` asks for JSON by a schema, else for prose; both are
      read wherever they come. ``prompt`` (a text, or a file as a ``Path``) replaces the instructions, not the form.
    - ``panel``: that many judgements for each ``llm`` criterion, with seeds 0 to n - 1 at temperature 0.5, of which
      the median counts; confidence is then 1 - (highest - lowest score). One judgement is asked for at temperature 0.
    - ``external`` is a validator beside the criteria, called as :func:`as_evaluator` does. It has no weight, only a
      veto: a number is held against ``threshold``.
    - ``prior`` is the text that ``compare`` criteria hold the output against; see :meth:`with_prior`. Without one
      such a criterion is left out.

    The verdict: ``score`` is the weighted mean of the criteria. ``passed`` says that it reaches ``threshold``, that
    each criterion reaches its own, and that the validator has nothing against it; equal is enough. Issues begin with
    the name of their criterion where there are several; one that fails without an issue has its errors or its
    rationale as one, and else none: no issue is made up. ``confidence`` is the weighted mean of what the judges say of
    theirs (0.5 where they don't say), 1.0 for functions and patterns.

    What can't be scored (a reply that can't be read after asking again, a function that raises or says ``None``) is
    named in the rationale; then ``score`` is ``None``, ``confidence`` 0.0, and ``passed`` is ``None``, or False where
    a function, a pattern or the validator has already failed. Raises ``ModelError`` when the model can't be reached,
    and :class:`ConfigurationError` for criteria that can't work.
    """

    criteria: Sequence[str | QualityCriterion] | None = None
    _: KW_ONLY
    model: ChatModel | None = field(default=None, repr=False)
    threshold: float = 0.8
    structured: bool = True
    prompt: str | Path | None = field(default=None, repr=False)
    together: bool = False
    panel: int = 1
    external: Callable[..., object] | None = None
    prior: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_share("threshold", self.threshold)
        check_whole("the number of members of a panel", self.panel)
        self._external = None if self.external is None else FunctionCheck(self.external)
        self._instructions = Template(_prompt("criteria.md", self.prompt))
        if self.criteria is not None:
            self.criteria = tuple(_copy(one) for one in as_criteria(self.criteria))
        self._plan(as_criteria(self.criteria))

    def with_prior(self, text: str | None) -> CriteriaEvaluator:
        """Return the evaluator with an earlier text to compare the output with."""
        return replace(self, prior=text)

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict on an attempt."""
        criteria = as_criteria(self.criteria, task.kind)
        asked, checks = self._plan(criteria)
        calls: list[Callable[[], Awaitable[dict[str, Evaluation]]]] = [
            functools.partial(_named, name, check, task, attempt) for name, check in checks.items()
        ]
        if asked:
            shown = material(task, attempt, trajectory=TRAJECTORY_TOKENS, output=OUTPUT_TOKENS)
            gold = task.reference is not None
            groups = [asked] if self.together else [[one] for one in asked]
            texts = judged(task, attempt)
            calls += [functools.partial(self._ask, group, shown, texts, gold=gold) for group in groups]
        verdicts: dict[str, Evaluation] = {}
        for found in await side_by_side(calls):
            verdicts |= found
        external = verdicts.pop(EXTERNAL, None) if self._external else None
        scored = [Scored(one, verdicts[one.name], self._applies(one)) for one in criteria]
        return conclude(scored, self.threshold, external)

    def _plan(
        self, criteria: Sequence[QualityCriterion]
    ) -> tuple[list[QualityCriterion], dict[str, Evaluator]]:
        """Sort the criteria by how they are measured: those to ask the judge about, and the rest by name."""
        asked = [one for one in criteria if one.evaluator == "llm"]
        checks: dict[str, Evaluator] = {}
        needy = [one.name for one in criteria if one.evaluator in {"llm", "compare"}]
        if needy and self.model is None:
            raise ConfigurationError(
                f"a model is needed to judge {', '.join(needy)}: pass model=, or criteria that functions check"
            )
        for one in criteria:
            if one.evaluator == "compare" and self.model is not None:
                checks[one.name] = Comparison(self.model, prior=self.prior, **one.evaluator_config)
            elif (check := check_of(one.name, one.evaluator, one.evaluator_config)) is not None:
                checks[one.name] = check
        if self._external is not None:
            if any(one.name == EXTERNAL for one in criteria):
                raise ConfigurationError(f"a criterion can't be called {EXTERNAL!r} beside external=")
            checks[EXTERNAL] = self._external
        return asked, checks

    def _applies(self, criterion: QualityCriterion) -> bool:
        against = criterion.evaluator_config.get("against")
        return not (criterion.evaluator == "compare" and against == "prior" and self.prior is None)

    async def _ask(
        self, asked: Sequence[QualityCriterion], shown: str, texts: Sequence[str], *, gold: bool
    ) -> dict[str, Evaluation]:
        """Return the median verdict of the panel by name.

        ``shown`` is the material as the model sees it, ``texts`` those in it that are judged. The usage of the calls
        stands in the first verdict.
        """
        samplings = [STEADY]
        if self.panel > 1:
            samplings = [Sampling(temperature=PANEL_TEMPERATURE, seed=seed) for seed in range(self.panel)]
        members = await side_by_side(
            [
                functools.partial(self._verdicts, asked, self._messages(asked, shown), one, texts)
                for one in samplings
            ]
        )
        marked = TEXTS if gold else frozenset[str]()
        return {
            one.name: replace(median_of([member[one.name] for member in members]), quotes_gold=marked)
            for one in asked
        }

    async def _verdicts(
        self,
        criteria: Sequence[QualityCriterion],
        messages: Sequence[Message],
        sampling: Sampling,
        judged: Sequence[str],
    ) -> dict[str, Evaluation]:
        """Ask once; a verdict that can't be read, also after a second try, has no score."""
        names = [each.name for each in criteria]
        several = len(criteria) > 1
        verdicts: dict[str, Evaluation] = {}

        def read(completion: Completion) -> tuple[dict[str, Evaluation], str]:
            """Keep what is read at last; what was read the first time and not the second stays."""
            if several:
                found = read_replies(completion.text, names, shown=judged)
            else:
                found = {names[0]: read_reply(completion.text, shown=judged, in_json=self.structured)}
            for name, one in found.items():
                if one.score is not None or name not in verdicts or verdicts[name].score is None:
                    verdicts[name] = one
            problems = {name: one.rationale for name, one in verdicts.items() if one.score is None}
            return verdicts, "; ".join(f"{n}: {p}" if several else p for n, p in problems.items())

        assert self.model is not None  # noqa: S101 - _plan refuses llm criteria without a model
        schema = _schema(criteria) if self.structured else None
        _, usage = await ask_and_read(
            functools.partial(ask, self.model, schema=schema, sampling=sampling), messages, read
        )
        return {**verdicts, names[0]: replace(verdicts[names[0]], usage=usage)}

    def _messages(self, criteria: Sequence[QualityCriterion], shown: str) -> list[Message]:
        """Return the question; the criterion comes last, so that an endpoint can keep what all have in common."""
        listed = bullets([f"{each.name}: {each.description}" for each in criteria])
        several = len(criteria) > 1
        which = "each of these criteria by itself" if several else "this criterion alone"
        question = Template(_prompt("question.md")).safe_substitute(which=which, criteria=listed)
        form = f"form_{'json' if self.structured else 'prose'}{'_each' if several else ''}.md"
        own = self._instructions.safe_substitute(criteria=listed)
        system = "\n\n".join((own, _prompt("criteria_rules.md"), _prompt(form)))
        return [Message("system", system), Message("user", f"{shown}\n\n{question}")]


async def _named(name: str, check: Evaluator, task: Task, attempt: Attempt) -> dict[str, Evaluation]:
    return {name: await check(task, attempt)}


def _copy(criterion: QualityCriterion) -> QualityCriterion:
    return replace(criterion, evaluator_config=dict(criterion.evaluator_config))


def _prompt(name: str, given: str | Path | None = None) -> str:
    return read_prompt(given, "jeeves_reflexion.evaluators", name)


def _schema(criteria: Sequence[QualityCriterion]) -> Mapping[str, JSON]:
    if len(criteria) == 1:
        return _VERDICT
    return object_schema({"criteria": object_schema({each.name: _VERDICT for each in criteria})})
