"""Structured reflections: what an attempt taught, in a form for its outcome, as Markdown files with an index.

:class:`~jeeves_reflexion.reflections.library.ReflectionLibrary` stores and recalls them. ``forms`` has their fields,
``journal`` writes the files, ``policy`` says who owes a reflection, ``streams`` keeps principles and procedures.
"""
