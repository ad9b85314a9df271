"""Structured reflections: what an attempt taught, in the fields of its outcome, as Markdown files with an index.

The way in is :class:`~jeeves_reflexion.reflections.library.ReflectionLibrary`, which keeps and recalls them: ``forms``
says what a reflection holds, ``journal`` keeps the files, ``policy`` says who owes one, ``streams`` what outlasts them.
"""
