"""What can go wrong with the questions and with the pages that they are answered from.

::

    ReflexionError
      +  ConfigurationError
      |    +  QuestionFileError   a file of questions can't be used
      +  PagesError               pages could not be looked up: no connection, a refusal, an answer that is none
      +  ModelError
           +  ContextFullError    a prompt is longer than the benchmark allows
"""

from __future__ import annotations

from jeeves_reflexion import ConfigurationError, ModelError, ReflexionError


class QuestionFileError(ConfigurationError):
    """A file of questions can't be used; the message says which, where in it, and what to do."""


class PagesError(ReflexionError):
    """Pages could not be looked up; the message names the address and what it said."""


class ContextFullError(ModelError):
    """A prompt is longer than the benchmark allows, so the model was not asked."""
