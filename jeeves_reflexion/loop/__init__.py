"""The outer loop of the paper: recall, attempt, evaluation, reflection, a stored lesson, the next attempt.

The way in is :class:`~jeeves_reflexion.loop.reflexion.Reflexion`: ``await Reflexion(agent, model=model).run(task)``.
"""
