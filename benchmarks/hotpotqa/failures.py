"""What can go wrong with the questions and with a prompt.

::

    ReflexionError
      +  ConfigurationError
      |    +  QuestionFileError   a file of questions can't be used
      +  ModelError
           +  ContextFullError    a prompt is longer than the benchmark allows
"""

from __future__ import annotations

from jeeves_reflexion import ConfigurationError, ModelError


class QuestionFileError(ConfigurationError):
    """A file of questions can't be used; the message says which, where in it, and what to do."""


class ContextFullError(ModelError):
    """A prompt is longer than the benchmark allows, so the model was not asked."""
