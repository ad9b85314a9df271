"""Judges an output criterion by criterion, and computes the overall verdict from weights and vetoes."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

from jeeves_reflexion.callables import side_by_side
from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators.compare import Comparison
from jeeves_reflexion.evaluators.criteria import QualityCriterion, as_criteria
from jeeves_reflexion.evaluators.function import FunctionCheck
from jeeves_reflexion.evaluators.judge import (
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
from jeeves_reflexion.evaluators.panel import median_of
from jeeves_reflexion.evaluators.regex import RegexCheck
from jeeves_reflexion.evaluators.replies import read_replies, read_reply
from jeeves_reflexion.models.ask import ask, ask_and_read
from jeeves_reflexion.protocols import ChatModel, Completion, Evaluator, Message, Sampling
from jeeves_reflexion.text import abridge, bullets, read_prompt
from jeeves_reflexion.types import JSON, NO_USAGE, Attempt, Evaluation, Task
from jeeves_reflexion.values import check_share, check_whole

_DIGITS = 9  # closer scores are equal: 0.1 + 0.7 reaches a threshold of 0.8
_RATIONALE = 300  # characters of a rationale that replaces an issue which the judge did not name
EXTERNAL = "external validator"
PANEL_TEMPERATURE = 0.5
"""The temperature for the members of a panel: at 0 they would all agree, and their spread would mean nothing."""

# The rationale comes first: a score is better if the reasons are written before it.
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
    """Scores an output by several criteria, each by itself and all concurrently, and computes the overall score.

    - ``criteria``: names, :class:`QualityCriterion` objects, or both; ``None`` takes the set of the task's kind. They
      are copied: later changes to them have no effect here.
    - ``model`` judges criteria of the kinds ``llm`` and ``compare``, one call for each; ``together`` makes one call for
      all ``llm`` criteria, to save tokens. ``structured`` asks for JSON of a schema, otherwise for prose; replies of
      both kinds are read in any case. ``prompt`` (a text, or a file as a ``Path``) replaces the instructions, not the
      form of the reply.
    - ``panel``: the number of judgements for each ``llm`` criterion. Several are asked for with seeds 0 to n - 1 at
      temperature 0.5, their median counts, and confidence is 1 - (highest - lowest score). One is asked for at
      temperature 0.
    - ``external`` is a validator beside the criteria, called as :func:`as_evaluator` does. It has no weight, only a
      veto; a number is compared with ``threshold``.
    - ``prior`` is the text with which ``compare`` criteria compare the output; see :meth:`with_prior`. Without it such
      criteria are left out.

    The ``score`` is the weighted mean of the criteria. ``passed`` is true if it reaches ``threshold``, each criterion
    reaches its own and the validator does not object; equality is enough. With several criteria, issues begin with the
    criterion's name. A criterion that fails without an issue reports its errors or its rationale instead; no issue is
    made up. ``confidence`` is the weighted mean of the judges' own (0.5 if unstated), 1.0 for functions and patterns.

    The rationale names criteria that can't be scored: the reply is unreadable after asking again, or a function raises
    or returns ``None``. Then ``score`` is ``None``, ``confidence`` is 0.0, and ``passed`` is ``None``, or False if a
    function, a pattern or the validator has already failed. Raises ``ModelError`` if the model can't be reached, and
    :class:`ConfigurationError` for criteria that can't work.
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
        self.threshold = check_share("threshold", self.threshold)
        self.panel = check_whole("the number of members of a panel", self.panel)
        self._external = None if self.external is None else FunctionCheck(self.external)
        self._instructions = Template(_prompt("criteria.md", self.prompt))
        if self.criteria is not None:
            self.criteria = tuple(
                replace(one, evaluator_config=dict(one.evaluator_config))
                for one in as_criteria(self.criteria)
            )
        self._plan(as_criteria(self.criteria))

    def with_prior(self, text: str | None) -> CriteriaEvaluator:
        """Return an evaluator that compares the output with an earlier text."""
        return replace(self, prior=text)

    async def __call__(self, task: Task, attempt: Attempt) -> Evaluation:
        """Return the verdict on an attempt."""
        criteria = as_criteria(self.criteria, task.kind)
        asked, checks = self._plan(criteria)
        calls: list[Callable[[], Awaitable[Any]]] = [
            functools.partial(check, task, attempt) for check in checks.values()
        ]
        if asked:
            shown = material(task, attempt, trajectory=TRAJECTORY_TOKENS, output=OUTPUT_TOKENS)
            gold = task.reference is not None
            groups = [asked] if self.together else [[one] for one in asked]
            texts = judged(task, attempt)
            calls += [functools.partial(self._ask, group, shown, texts, gold=gold) for group in groups]
        results = await side_by_side(calls)
        verdicts: dict[str, Evaluation] = dict(zip(checks, results, strict=False))
        for of_group in results[len(checks) :]:
            verdicts |= of_group
        external = verdicts.pop(EXTERNAL, None) if self._external else None
        # A comparison with an earlier text does not count as long as there is none.
        compared = [] if self.prior is not None else [one for one in criteria if one.evaluator == "compare"]
        left_out = {one.name for one in compared if one.evaluator_config.get("against") == "prior"}
        scored = [Scored(one, verdicts[one.name], one.name not in left_out) for one in criteria]
        return conclude(scored, self.threshold, external)

    def _plan(
        self, criteria: Sequence[QualityCriterion]
    ) -> tuple[list[QualityCriterion], dict[str, Evaluator]]:
        """Return the criteria for the judge, and the checks that measure the others by name."""
        asked = [one for one in criteria if one.evaluator == "llm"]
        needy = [one.name for one in criteria if one.evaluator in {"llm", "compare"}]
        if needy and self.model is None:
            raise ConfigurationError(
                f"a model is needed to judge {', '.join(needy)}: pass model=, or criteria that functions check"
            )
        makers: dict[str, Callable[..., Evaluator | None]] = {
            "llm": lambda: None,
            "regex": RegexCheck,
            "function": FunctionCheck,
        }
        if self.model is not None:
            makers["compare"] = functools.partial(Comparison, self.model, prior=self.prior)
        checks: dict[str, Evaluator] = {}
        for one in criteria:
            make = makers[one.evaluator]
            try:
                inspect.signature(make).bind(**one.evaluator_config)
                check = make(**one.evaluator_config)
            except (TypeError, ConfigurationError) as error:
                kind = f"evaluator_config of the kind {one.evaluator}"
                raise ConfigurationError(f"criterion {one.name!r}: {kind}: {error}") from error
            if check is not None:
                checks[one.name] = check
        if self._external is not None:
            if any(one.name == EXTERNAL for one in criteria):
                raise ConfigurationError(f"a criterion can't be called {EXTERNAL!r} beside external=")
            checks[EXTERNAL] = self._external
        return asked, checks

    async def _ask(
        self, asked: Sequence[QualityCriterion], shown: str, texts: Sequence[str], *, gold: bool
    ) -> dict[str, Evaluation]:
        """Return the panel's median verdicts by name.

        ``shown`` is the material as the model sees it, ``texts`` are the judged texts in it. The first verdict carries
        the usage of all calls.
        """
        # The criteria come last, so that endpoints can cache the part that all calls share.
        listed = bullets([f"{each.name}: {each.description}" for each in asked])
        several = len(asked) > 1
        which = "each of these criteria by itself" if several else "this criterion alone"
        question = Template(_prompt("question.md")).safe_substitute(which=which, criteria=listed)
        form = f"form_{'json' if self.structured else 'prose'}{'_each' if several else ''}.md"
        own = self._instructions.safe_substitute(criteria=listed)
        system = "\n\n".join((own, _prompt("criteria_rules.md"), _prompt(form)))
        messages = [Message("system", system), Message("user", f"{shown}\n\n{question}")]

        samplings = [STEADY]
        if self.panel > 1:
            samplings = [Sampling(temperature=PANEL_TEMPERATURE, seed=seed) for seed in range(self.panel)]
        members = await side_by_side(
            [functools.partial(self._verdicts, asked, messages, one, texts) for one in samplings]
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
        """Ask one member of the panel. A verdict that is unreadable even after a second try has no score."""
        names = [each.name for each in criteria]
        several = len(criteria) > 1
        verdicts: dict[str, Evaluation] = {}

        def read(completion: Completion) -> tuple[dict[str, Evaluation], str]:
            """Keep the latest readable verdict on each criterion."""
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
        schema = _VERDICT
        if several:
            schema = object_schema({"criteria": object_schema(dict.fromkeys(names, _VERDICT))})
        _, usage = await ask_and_read(
            functools.partial(ask, self.model, schema=schema if self.structured else None, sampling=sampling),
            messages,
            read,
        )
        return {**verdicts, names[0]: replace(verdicts[names[0]], usage=usage)}


def _prompt(name: str, given: str | Path | None = None) -> str:
    return read_prompt(given, "jeeves_reflexion.evaluators", name)


# -- the whole --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scored:
    """A criterion and its verdict.

    ``applies`` is false if there was nothing to measure it by. ``external`` means that it has a veto but no weight.
    """

    criterion: QualityCriterion
    verdict: Evaluation
    applies: bool = True
    external: bool = False

    @property
    def holds(self) -> bool | None:
        """Whether the text is acceptable by this criterion; None if unknown.

        ``passed=False`` of a check counts, unless the threshold is 0, which never vetoes.
        """
        if self.external and self.verdict.passed is not None:
            return self.verdict.passed
        if self.verdict.score is None:
            return None
        own = self.criterion.threshold == 0 or self.verdict.passed is not False
        return own and reaches(self.verdict.score, self.criterion.threshold)

    @property
    def issues(self) -> tuple[str, ...]:
        """What is wrong, in the judge's own words; empty if the judge says nothing."""
        verdict = self.verdict
        if verdict.issues or self.holds is not False:
            return verdict.issues
        if verdict.errors:
            return tuple(map(str, verdict.errors))
        return (abridge(verdict.rationale, _RATIONALE),) if verdict.rationale.strip() else ()

    def __str__(self) -> str:
        score, holds = self.verdict.score, self.holds
        state = "no score" if score is None else f"{score:.2f}"
        if holds is False:
            state += f", below its threshold {self.criterion.threshold:g}"
        if self.external:
            state = "refuses the text" if holds is False else "no objection" if holds else state
        state = state if self.applies else "left out"
        return f"{self.criterion.name} ({state}): {self.verdict.rationale}".removesuffix(": ")


def reaches(score: float, threshold: float) -> bool:
    """Whether a score is at least a threshold, regardless of rounding errors of floats."""
    return round(score - threshold, _DIGITS) >= 0


def weighted(scores: Sequence[tuple[float, float]]) -> float:
    """Return the weighted mean of ``(weight, value)`` pairs; weights are above 0, values and mean in [0, 1]."""
    largest = max(weight for weight, _ in scores)
    shares = [weight / largest for weight, _ in scores]
    total = math.fsum(part * value for part, (_, value) in zip(shares, scores, strict=True))
    return min(max(round(total / math.fsum(shares), _DIGITS + 3), 0.0), 1.0)


def conclude(scored: Sequence[Scored], threshold: float, external: Evaluation | None = None) -> Evaluation:
    """Return the overall verdict; see :class:`CriteriaEvaluator`."""
    shown = [*scored]
    if external is not None:
        validator = QualityCriterion(EXTERNAL, threshold=threshold, evaluator="function")
        shown.append(Scored(validator, external, external=True))
    parts = [one for one in shown if one.applies]
    verdicts = [one.verdict for one in parts]
    counted = [one for one in parts if not one.external]
    unknown = [one.criterion.name for one in parts if one.holds is None]
    score = None
    confidence = 0.0
    if counted and not unknown:
        score = weighted([(one.criterion.weight, one.verdict.score or 0.0) for one in counted])
        confidence = weighted([(one.criterion.weight, one.verdict.confidence or 0.0) for one in counted])
    passed: bool | None = None
    # A failed check that asked no model refuses the text, even if other verdicts are unknown.
    if any(one.holds is False and one.criterion.evaluator in {"regex", "function"} for one in parts):
        passed = False
    elif score is not None:
        passed = reaches(score, threshold) and all(one.holds for one in counted)
    lines = [f"could not be scored: {', '.join(unknown)}"] if unknown else []
    several = len(shown) > 1
    issues = (f"{one.criterion.name}: {issue}" if several else issue for one in parts for issue in one.issues)
    return Evaluation(
        score,
        passed=passed,
        rationale="\n".join((*lines, *map(str, shown))),
        criteria_scores={
            one.criterion.name: one.verdict.score for one in counted if one.verdict.score is not None
        },
        issues=tuple(dict.fromkeys(issues)),
        suggestions=tuple(dict.fromkeys(text for verdict in verdicts for text in verdict.suggestions)),
        errors=tuple(error for verdict in verdicts for error in verdict.errors),
        confidence=confidence,
        usage=sum((one.verdict.usage for one in shown), NO_USAGE),
        quotes_gold=frozenset[str]().union(*(verdict.quotes_gold for verdict in verdicts)),
    )
