"""The complete example of reflection actions: a profile is generated, checked by a schema, and corrected.

The model here is a script, so that the example runs anywhere. Without ``model``, the one that ``profile.yaml`` names is
used; or run ``jeeves-reflexion workflow run profile.yaml --state '{"request": "Ada Lovelace"}' --model gpt-4o-mini``.
"""

import asyncio
from pathlib import Path

from jeeves_reflexion import ScriptedModel
from jeeves_reflexion.sandbox import Sandbox
from jeeves_reflexion.workflows import Workflow

DRAFT = '{"name": "Ada Lovelace", "email": "ada at example.org"}'
CORRECTED = """```json
{"name": "Ada Lovelace", "email": "ada@example.org", "age": "36"}
```"""


async def main() -> None:
    workflow = Workflow.load(Path(__file__).parent / "profile.yaml")

    # The inline code is ours, so limits are enough on a machine that can't isolate it.
    async with Sandbox(allow_weaker=True) as sandbox:
        state = await workflow.run(
            {"request": "Ada Lovelace"}, model=ScriptedModel([DRAFT, CORRECTED]), sandbox=sandbox
        )

    for entry in state["reflection_history"]:
        print(f"Attempt {entry['iteration']}: {'valid' if entry['valid'] else 'not valid'}")
        for error in entry["errors"]:
            print(f"  {error['path'] or 'the profile'}: {error['message']}")
    print(state["message"], f"({state['profile']['email']}, {state['age'] + 1} next year)")


asyncio.run(main())
