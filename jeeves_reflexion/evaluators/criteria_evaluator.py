"""Judges an output criterion by criterion."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from jeeves_reflexion.errors import ConfigurationError
from jeeves_reflexion.evaluators.checks import FunctionCheck, check_of
from jeeves_reflexion.evaluators.compare import Comparison
from jeeves_reflexion.evaluators.criteria import QualityCriterion, as_criteria
from jeeves_reflexion.evaluators.criteria_judge import STEADY, Asked, CriteriaJudge
from jeeves_reflexion.evaluators.material import OUTPUT_TOKENS, TEXTS, TRAJECTORY_TOKENS, judged, material
from jeeves_reflexion.evaluators.overall import EXTERNAL, Scored, conclude
from jeeves_reflexion.evaluators.panel import check_size, median_of
from jeeves_reflexion.evaluators.scores import check_share
from jeeves_reflexion.evaluators.side_by_side import side_by_side
from jeeves_reflexion.protocols import ChatModel, Evaluator, Sampling
from jeeves_reflexion.types import Attempt, Evaluation, Task

PANEL_TEMPERATURE = 0.5
"""What the members of a panel are asked at: at 0 they would all say the same, and their spread would say nothing."""


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
        check_size(self.panel)
        self._external = None if self.external is None else FunctionCheck(self.external)
        self._judge = None
        if self.model is not None:
            self._judge = CriteriaJudge(self.model, structured=self.structured, prompt=self.prompt)
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

    def _plan(self, criteria: Sequence[QualityCriterion]) -> tuple[list[Asked], dict[str, Evaluator]]:
        """Sort the criteria by how they are measured: those to ask the judge about, and the rest by name."""
        asked = [Asked(one.name, one.description) for one in criteria if one.evaluator == "llm"]
        checks: dict[str, Evaluator] = {}
        needy = [one.name for one in criteria if one.evaluator in {"llm", "compare"}]
        if needy and self.model is None:
            raise ConfigurationError(
                f"a model is needed to judge {', '.join(needy)}: pass model=, or criteria that functions check"
            )
        for one in criteria:
            if one.evaluator == "compare" and self.model is not None:
                checks[one.name] = Comparison(self.model, prior=self.prior, **one.evaluator_config)
            elif one.evaluator in {"regex", "function"}:
                checks[one.name] = check_of(one.name, one.evaluator, one.evaluator_config)
        if self._external is not None:
            if any(one.name == EXTERNAL for one in criteria):
                raise ConfigurationError(f"a criterion can't be called {EXTERNAL!r} beside external=")
            checks[EXTERNAL] = self._external
        return asked, checks

    def _applies(self, criterion: QualityCriterion) -> bool:
        against = criterion.evaluator_config.get("against")
        return not (criterion.evaluator == "compare" and against == "prior" and self.prior is None)

    async def _ask(
        self, asked: Sequence[Asked], shown: str, texts: Sequence[str], *, gold: bool
    ) -> dict[str, Evaluation]:
        assert self._judge is not None  # noqa: S101 - _plan refuses llm criteria without a model
        samplings = [STEADY]
        if self.panel > 1:
            samplings = [Sampling(temperature=PANEL_TEMPERATURE, seed=seed) for seed in range(self.panel)]
        members = await side_by_side(
            [functools.partial(self._judge, asked, shown, one, judged=texts) for one in samplings]
        )
        marked = TEXTS if gold else frozenset[str]()
        return {
            one.name: replace(median_of([member[one.name] for member in members]), quotes_gold=marked)
            for one in asked
        }


async def _named(name: str, check: Evaluator, task: Task, attempt: Attempt) -> dict[str, Evaluation]:
    return {name: await check(task, attempt)}


def _copy(criterion: QualityCriterion) -> QualityCriterion:
    return replace(criterion, evaluator_config=dict(criterion.evaluator_config))
