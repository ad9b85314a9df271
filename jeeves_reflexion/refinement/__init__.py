"""The inner loop: a draft is judged and revised within one attempt, until it is good or revisions no longer help.

Begin with :class:`~jeeves_reflexion.refinement.loop.Refinement`, which is an agent itself:
``Refinement(agent, evaluator=…, reviser=…)``. ``refinement.pattern`` offers it under the reflection pattern's names.
"""
