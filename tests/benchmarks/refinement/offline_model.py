"""The offline actors behind a chat model, which reads the house's own prompts and answers in the forms asked for."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.refinement.actors import places_named
from benchmarks.refinement.problem import Problem
from benchmarks.refinement.rates import Eye, Rates, first_state, mended
from jeeves_reflexion import (
    Completion,
    ExperimentError,
    Message,
    Sampling,
    ToolSpec,
    Usage,
)
from jeeves_reflexion.revisers.edits import DIVIDER, REPLACE, SEARCH
from jeeves_reflexion.text import estimate_tokens
from jeeves_reflexion.types import JSON

_ASKED = re.compile(r"^- (\w+): ", re.MULTILINE)
_ISSUE = re.compile(r"^\d+\. (\w+:.*)$", re.MULTILINE)


class OfflineModel:
    """Writes, judges and revises one problem as a model would: it reads prompts and answers in the forms asked for.

    Its errors are those of :class:`~benchmarks.refinement.actors.Judge` and the others; ``noise`` is added to the score
    of each criterion. Tokens are estimated: a quarter of the characters of all messages, and of the reply.
    """

    name = "offline"
    supports_tools = False

    def __init__(self, problem: Problem, rates: Rates) -> None:
        self._problem = problem
        self._rates = rates
        self._eye = Eye(problem, rates)
        self._times: Counter[str] = Counter()

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec] = (),
        schema: Mapping[str, JSON] | None = None,
        sampling: Sampling | None = None,
    ) -> Completion:
        """Answer: with a verdict where a schema is asked for, with a revised text where there is a draft."""
        prompt = next((one.content for one in messages if "<draft>" in one.content), messages[-1].content)
        if schema is not None:
            text = self._verdict(prompt, sampling.seed if sampling else None)
        elif "<draft>" in prompt:
            text = self._revised(prompt)
        else:
            text = self._problem.write(first_state(self._problem, self._rates))
        asked = sum(estimate_tokens(message.content) for message in messages)
        return Completion(text, usage=Usage(1, asked, estimate_tokens(text)), model=self.name)

    def _verdict(self, prompt: str, seed: int | None) -> str:
        text = _between(prompt, "output")
        state = self._problem.state(text)
        names = _ASKED.findall(prompt.rpartition("Judge the output by")[2])
        said = {name: self._said(name, state[self._problem.names.index(name)], text, seed) for name in names}
        return json.dumps({"criteria": said} if len(names) > 1 else said[names[0]])

    def _said(self, name: str, holds: bool, text: str, seed: int | None) -> dict[str, JSON]:
        chance = self._chance(f"judge/{name}/{seed}", text)
        place = self._problem.names.index(name)
        seen = self._eye.sees(place, holds, chance)
        score = min(max(seen + chance.gauss(0.0, self._rates.noise), 0.0), 1.0)
        wanted = self._problem.requirements[place].description
        return {
            "rationale": f"The text was held against what is asked for, and it {'keeps' if seen else 'breaks'} it.",
            "score": round(score, 3),
            "confidence": 0.9,
            "issues": [] if seen else [f"This does not hold of the text: {wanted}"],
            "suggestions": [] if seen else [f"Change the text so that this holds: {wanted}"],
        }

    def _revised(self, prompt: str) -> str:
        text = _between(prompt, "draft")
        issues = _ISSUE.findall(_between(prompt, "issues")) if "<issues>" in prompt else []
        named = places_named(self._problem, issues)
        chance = self._chance("reviser", text)
        new = self._problem.write(mended(self._problem.state(text), named, self._rates, chance))
        return "\n".join((SEARCH, text, DIVIDER, new, REPLACE)) if SEARCH in prompt else new

    def _chance(self, role: str, text: str) -> random.Random:
        """Return the dice of one call: the same question about the same text, asked again, is thrown for anew."""
        key = f"{self._problem.id}/{role}/{hashlib.sha256(text.encode()).hexdigest()}"
        self._times[key] += 1
        return random.Random(f"{key}/{self._times[key]}")


def _between(text: str, tag: str) -> str:
    match = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    if match is None:
        raise ExperimentError(f"the prompt has no <{tag}>: the form of the prompts has changed")
    return match[1]
