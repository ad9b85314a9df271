"""``ReflectionPattern``: turns its parameters into an inner loop, and wraps agents in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias, get_args

from jeeves_reflexion.agents.function import as_agent
from jeeves_reflexion.callables import run_alone
from jeeves_reflexion.drafts import Draft, Refined, RevisionRequest, Selection, Strategy, Trigger
from jeeves_reflexion.errors import ConfigurationError, SessionError
from jeeves_reflexion.evaluators.compare import Comparison
from jeeves_reflexion.evaluators.criteria import QualityCriterion, as_criteria
from jeeves_reflexion.evaluators.criteria_evaluator import CriteriaEvaluator
from jeeves_reflexion.models.endpoint import EndpointModel
from jeeves_reflexion.models.names import open_model
from jeeves_reflexion.models.wrapped import WrappedModel
from jeeves_reflexion.protocols import Agent, ChatModel
from jeeves_reflexion.refinement.convergence import Convergence
from jeeves_reflexion.refinement.critics import ModelStepCritic, Triggers
from jeeves_reflexion.refinement.loop import Refinement, attempt_of
from jeeves_reflexion.refinement.options import Hooks, RefinementOptions
from jeeves_reflexion.refinement.pattern.values import (
    ReflectionCallbacks,
    ReflectionEvaluation,
    ReflectionHistory,
    ReflectionResult,
    ReflectionVersion,
)
from jeeves_reflexion.revisers import AgentReviser, ModelReviser
from jeeves_reflexion.session import Session
from jeeves_reflexion.types import Attempt, Evaluation, Task
from jeeves_reflexion.values import check_choice, check_share, check_whole

AnyAgent: TypeAlias = Agent | Callable[..., object]

DROP: Final = 0.1
"""The quality drop that is analysed if the trigger is named without a threshold."""


@dataclass(eq=False)
class ReflectionPattern:
    """Improves an agent's output by judging and revising it; one object serves many runs at once.

    The writer's model also judges and revises. An agent that shows no model of this package is asked for the revisions
    itself, with a prompt that says what the model would be told.

    Args:
        max_iterations: The most revisions; the last one is judged too.
        quality_criteria: Names, :class:`QualityCriterion` objects or both; None takes the set of the task's kind.
        quality_threshold: The lowest overall score, from 0 to 1, of a satisfactory draft.
        reflection_prompt: Replaces the judge's instructions; the form of the answer stays.
        revision_strategy: "full_rewrite", "targeted_edit" or "incremental"; "hybrid" chooses by the extent of the
            problems.
        reflection_triggers: "completion" is always on; the options below turn on others too.
        best_version_selection: "highest_score", "latest", "first_satisfactory" or "weighted_recency".
        structured_reflection: Whether judges are asked for JSON by a schema, or for prose.
        model: Judges and revises in place of the agent's own model (``agent.model``).
        reflection_model: Another judge: a model, or the name of one at the writer's endpoint. If the writer's model has
            no endpoint of its own, :func:`open_model` opens the name; if it wraps another model, a name is refused.
        preserve_all_versions: Whether the history keeps more than the best and the last draft.
        include_prior_versions: Whether the reviser sees earlier drafts.
        include_reflection_history: Whether the reviser sees earlier verdicts.
        max_revision_tokens: The most tokens of all revisions of a run; estimated if none are reported.
        plateau_iterations: How many scores without a gain end a run.
        improvement_threshold: Gains below it are diminishing.
        detect_oscillation: Whether scores that go up and down end a run.
        reflection_interval: Steps between two critiques; turns its trigger on.
        reflect_on_error: Turns its trigger on; False overrides the trigger's name.
        reflect_on_tools: Tools after which to reflect; turns its trigger on.
        quality_drop_threshold: The loss of score that is analysed; turns its trigger on.
        callbacks: Called after each draft, verdict and revision.
        external_validator: A callable of the output, or of task and attempt; its refusal is a veto without a weight.
        timeout: Seconds for each evaluation, revision and callback.

    Raises:
        ConfigurationError: for an invalid value.
    """

    max_iterations: int = 3
    quality_criteria: Sequence[str | QualityCriterion] | None = None
    quality_threshold: float = 0.8
    reflection_prompt: str | None = None
    revision_strategy: Strategy = "hybrid"
    reflection_triggers: Sequence[str] = ("completion",)
    best_version_selection: Selection = "highest_score"
    structured_reflection: bool = True
    _: KW_ONLY
    model: ChatModel | None = field(default=None, repr=False)
    reflection_model: str | ChatModel | None = None
    preserve_all_versions: bool = True
    include_prior_versions: bool = False
    include_reflection_history: bool = True
    max_revision_tokens: int | None = None
    plateau_iterations: int = 2
    improvement_threshold: float = 0.05
    detect_oscillation: bool = True
    reflection_interval: int | None = None
    reflect_on_error: bool | None = None
    reflect_on_tools: Sequence[str] = ()
    quality_drop_threshold: float | None = None
    callbacks: ReflectionCallbacks | None = None
    external_validator: Callable[..., object] | None = None
    timeout: float = 300.0
    _last: ReflectionResult | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        # A wrong value is reported here, where it was written, and not in a run.
        self.max_iterations = check_whole("max_iterations", self.max_iterations)
        self.quality_threshold = check_share("quality_threshold", self.quality_threshold)
        check_choice("revision_strategy", self.revision_strategy, Strategy)
        triggers = self.reflection_triggers
        if isinstance(triggers, str):
            raise ConfigurationError(f"reflection_triggers must be a list of names, not {triggers!r}")
        if unknown := sorted(set(triggers) - set(get_args(Trigger))):
            known = ", ".join(get_args(Trigger))
            raise ConfigurationError(f"unknown reflection trigger {unknown[0]!r}; there are: {known}")
        for name, option in (("step_interval", "reflection_interval"), ("tool_result", "reflect_on_tools")):
            if name in triggers and not getattr(self, option):
                raise ConfigurationError(f"the trigger {name} needs {option}")
        if self.callbacks is not None and not isinstance(self.callbacks, Hooks):
            raise ConfigurationError(
                f"callbacks must be ReflectionCallbacks, not {type(self.callbacks).__name__}"
            )
        self.reflection_triggers = list(dict.fromkeys(["completion", *triggers]))
        self._options()  # each part checks its own values
        if self.quality_criteria is not None:
            self.quality_criteria = as_criteria(self.quality_criteria)

    # -- whole runs

    async def execute(self, agent: AnyAgent, query: str | Task) -> ReflectionResult:
        """Have the agent answer, and improve its answer.

        Errors of the agent in the first draft are raised. A judge or reviser that fails later ends the run with the
        best version so far (``error``, ``convergence_reason`` ``ERROR``); a last version that was not judged is the
        final one.
        """
        task = query if isinstance(query, Task) else Task(query)
        return self.result_of(await self.refinement(as_agent(agent), task).refine(task))

    def wrap(self, agent: AnyAgent) -> PatternAgent:
        """Return an agent that runs another one within this pattern: ``await pattern.wrap(agent).run(query)``."""
        return PatternAgent(self, as_agent(agent))

    def refinement(self, agent: Agent, task: Task) -> Refinement:
        """Return this pattern's inner loop, for an agent and the criteria of a task's kind."""
        shown = self.model or getattr(agent, "model", None)
        writer = shown if isinstance(shown, ChatModel) else None
        judge = self._judge_model(writer)
        evaluator = self._evaluator(as_criteria(self.quality_criteria, task.kind), judge)
        make = partial(AgentReviser, agent) if writer is None else partial(ModelReviser, writer)
        options, triggers = self._options()
        if judge is None and (triggers.any_step or triggers.quality_drop is not None):
            raise ConfigurationError("reflection triggers need a model: pass model= to ReflectionPattern")
        return Refinement(
            agent,
            evaluator=evaluator,
            reviser=make(
                strategy=self.revision_strategy,
                include_prior_versions=self.include_prior_versions,
                include_reflection_history=self.include_reflection_history,
            ),
            max_drafts=self.max_iterations + 1,
            threshold=self.quality_threshold,
            options=replace(
                options,
                triggers=triggers,
                step_critic=None if judge is None else ModelStepCritic(judge),
                drop_critic=None if judge is None else partial(_loss, judge),
            ),
        )

    def result_of(self, refined: Refined) -> ReflectionResult:
        """Return the result of a run of :meth:`refinement`, and keep it as the last run."""
        self._last = ReflectionResult.of(refined, keep_all=self.preserve_all_versions)
        return self._last

    # -- single phases

    async def reflect(
        self,
        output: str,
        criteria: Sequence[str | QualityCriterion] | None = None,
        *,
        task: Task | None = None,
    ) -> ReflectionEvaluation:
        """Judge an output without a run (the trigger "manual").

        ``task`` is what the output is for, if that matters. Unless no criterion is judged by a model, the pattern needs
        ``model`` or ``reflection_model``.
        """
        task = task or Task(_NO_TASK)
        chosen = as_criteria(self.quality_criteria if criteria is None else criteria, task.kind)
        evaluator = self._evaluator(chosen, self._judge_model(self.model))
        evaluation = await evaluator(task, Attempt(output))
        return ReflectionEvaluation.of(evaluation, satisfactory=evaluation.meets(self.quality_threshold))

    async def revise(self, output: str, evaluation: ReflectionEvaluation, *, task: Task | None = None) -> str:
        """Revise an output that was judged, without a run. The pattern needs ``model``."""
        if self.model is None:
            raise ConfigurationError("revise() needs a model: ReflectionPattern(model=...)")
        verdict = evaluation.as_evaluation()
        request = RevisionRequest(Draft(1, output, verdict), verdict, max_tokens=self.max_revision_tokens)
        reviser = ModelReviser(self.model, strategy=self.revision_strategy)
        revision = await reviser((task or Task(_NO_TASK)).public(), request)
        return revision.output

    # -- the last run

    def get_history(self) -> ReflectionHistory:
        """Return the history of the run of this pattern that ended last.

        If several run at once, use the ``history`` of each result instead. Raises
        :class:`~jeeves_reflexion.errors.SessionError` if no run has ended.
        """
        if self._last is None:
            raise SessionError(
                "this pattern has no finished run: execute() it first, or run an agent wrapped in it"
            )
        return self._last.history

    def get_best_version(self) -> ReflectionVersion:
        """Return the best version of the run that ended last; see :meth:`get_history`."""
        return self.get_history().best_version

    # -- the parts

    def _judge_model(self, writer: ChatModel | None) -> ChatModel | None:
        wanted = self.reflection_model
        if not isinstance(wanted, str):
            return writer if wanted is None else wanted
        if isinstance(writer, WrappedModel):
            # A name opened elsewhere would send the texts to another service.
            raise ConfigurationError(
                f"reflection_model={wanted!r} can't be opened at the endpoint of a {type(writer).__name__}: pass a "
                "model instead of a name"
            )
        return writer.named(wanted) if isinstance(writer, EndpointModel) else open_model(wanted)

    def _evaluator(self, criteria: Sequence[QualityCriterion], judge: ChatModel | None) -> CriteriaEvaluator:
        if judge is None and any(criterion.evaluator in {"llm", "compare"} for criterion in criteria):
            raise ConfigurationError(
                "a criterion needs a model as its judge, and the agent shows none: pass model= or reflection_model= to "
                "ReflectionPattern"
            )
        return CriteriaEvaluator(
            criteria,
            model=judge,
            threshold=self.quality_threshold,
            structured=self.structured_reflection,
            prompt=self.reflection_prompt,
            external=self.external_validator,
        )

    def _options(self) -> tuple[RefinementOptions, Triggers]:
        """Return the options, without the triggers, which need their critics, and the triggers."""
        named, drop = set(self.reflection_triggers), self.quality_drop_threshold
        triggers = Triggers(
            step_interval=self.reflection_interval,
            on_error="error" in named if self.reflect_on_error is None else self.reflect_on_error,
            on_tools=self.reflect_on_tools,  # type: ignore[arg-type] # any list of names becomes a tuple
            quality_drop=DROP if drop is None and "quality_drop" in named else drop,
        )
        convergence = Convergence(
            plateau_iterations=self.plateau_iterations,
            improvement_threshold=self.improvement_threshold,
            detect_oscillation=self.detect_oscillation,
        )
        options = RefinementOptions(
            convergence=convergence,
            selection=self.best_version_selection,
            max_revision_tokens=self.max_revision_tokens,
            timeout=self.timeout,
            hooks=self.callbacks or Hooks(),
        )
        return options, triggers


class PatternAgent:
    """Answers by :meth:`run`, and is an agent that nests in :class:`~jeeves_reflexion.Reflexion`."""

    def __init__(self, pattern: ReflectionPattern, agent: Agent) -> None:
        self.pattern = pattern
        self.inner = agent
        self.name = f"reflection({getattr(agent, 'name', type(agent).__name__)})"

    async def run(self, query: str | Task) -> ReflectionResult:
        """Answer a query; see :meth:`ReflectionPattern.execute`."""
        return await self.pattern.execute(self.inner, query)

    def run_sync(self, query: str | Task) -> ReflectionResult:
        """Answer a query from sync code. Raises :class:`SessionError` in async code."""
        return run_alone(lambda: self.run(query), "agent.run(query)")

    async def __call__(self, task: Task, session: Session) -> Attempt:
        """Return the best version as an attempt."""
        refined = await self.pattern.refinement(self.inner, task).refine(task, session)
        self.pattern.result_of(refined)
        return attempt_of(refined)


async def _loss(judge: ChatModel, task: Task, new: str, old: str) -> Evaluation:
    """Return what a draft lost against the one before it, by comparing the two in both orders."""
    compared = await Comparison(judge).compare(task, new, old)
    return Evaluation(None, issues=compared.issues, usage=compared.usage)


_NO_TASK: Final = "(the task is not given)"
