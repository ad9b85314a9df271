"""The calls of models that tries in worker processes make, asked by the experiment's own process on their behalf.

So a key stays where the experiment runs, every reply is recorded in the run's folder, the spending limit holds for all
processes together, and what a killed process was told is told again to the next one, unpaid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from jeeves_reflexion.errors import HOPELESS, ModelAuthError, ModelError
from jeeves_reflexion.experiments.executors import RunBudget
from jeeves_reflexion.experiments.journal import Position
from jeeves_reflexion.experiments.ray.messages import Asked, Failed, OverLimit, Reply, failed
from jeeves_reflexion.models.cassette import RecordedError, key_of, recorded_error, request_of
from jeeves_reflexion.models.recorded import recording_at
from jeeves_reflexion.protocols import ChatModel, Completion
from jeeves_reflexion.types import NO_USAGE, Usage


class Calls:
    """The calls of one try, over all the processes that it is begun in."""

    def __init__(self, position: Position, models: Mapping[str, ChatModel], budget: RunBudget) -> None:
        self._position = str(position)
        self._models = models
        self._budget = budget
        self._charged = NO_USAGE
        self._given: dict[tuple[str, int], Completion] = {}
        self._turns: Counter[str] = Counter()

    def begin(self) -> None:
        """Have the try begin (again), in a new process: its first question is the first once more.

        What is answered again is not paid for; what an agent's own client used in the process before was, and will be.
        """
        self._charged = sum((each.usage for each in self._given.values()), NO_USAGE)
        self._turns.clear()

    def settle(self, used: Usage) -> None:
        """Charge what a try has used beyond the calls made here, as by a client of the agent's own."""
        more = used.beyond(self._charged)
        self._budget.spent += more
        self._charged += more

    async def answer(self, asked: Asked) -> Reply:
        """Answer a question of the try: as it was answered before, else by asking the model; what failed is told."""
        self.settle(asked.spent)
        model = self._models[asked.model]
        request = request_of(model.name, asked.messages, asked.tools, asked.schema, asked.sampling)
        key = f"{asked.model} {key_of(request)}"
        turn = self._turns[key]
        self._turns[key] += 1
        answer: RecordedError | Failed | OverLimit | Completion
        try:
            if (key, turn) in self._given:
                answer = self._given[key, turn]
            elif self._budget.exhausted:
                answer = OverLimit(str(self._budget))
            else:
                answer = self._given[key, turn] = await self._ask(model, asked)
        except ModelAuthError as error:
            answer = failed(error)
        except ModelError as error:
            answer = recorded_error(error, native=model.supports_tools)
        except HOPELESS as error:
            answer = failed(error)
        return Reply(answer, model.supports_tools)

    async def _ask(self, model: ChatModel, asked: Asked) -> Completion:
        with recording_at(self._position):
            completion = await model.complete(
                asked.messages, tools=asked.tools, schema=asked.schema, sampling=asked.sampling
            )
        self._budget.spent += completion.usage
        self._charged += completion.usage
        return completion
