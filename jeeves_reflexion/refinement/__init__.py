"""The inner loop: a draft is judged and revised within one attempt, until it is good or revising no longer helps.

The way in is :class:`~jeeves_reflexion.refinement.loop.Refinement`, an agent itself:
``Refinement(agent, evaluator=…, reviser=…)``. ``refinement.pattern`` has the names of the reflection pattern over it.
"""
