"""Structured reflections: what an attempt taught, in a form for its outcome, as Markdown files with an index.

Start with :class:`~jeeves_reflexion.reflections.library.ReflectionLibrary`, which stores and recalls them. ``forms``
defines their fields, ``journal`` writes the files, ``policy`` says which agent owes a reflection, and ``streams`` keeps
the principles and procedures.
"""
