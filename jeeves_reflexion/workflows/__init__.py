"""Workflows in YAML: nodes that generate, evaluate and correct, built on the inner loop.

    workflow = Workflow.load("profile.yaml")
    state = await workflow.run({"request": "a profile for Ada"})

The three actions are also functions: :func:`reflection_loop`, :func:`reflection_evaluate` and
:func:`reflection_correct`. Needs the extra ``workflows`` (Jinja2, PyYAML, jsonschema).
"""

from vectorstores.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
