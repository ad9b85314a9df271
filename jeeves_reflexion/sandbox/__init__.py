"""The sandbox: the only place that executes code written by a user or a model.

    async with Sandbox() as sandbox:
        ran = await sandbox.run("result = {'valid': '@' in output}", inputs={"output": "a@b.c"})
        ran.value  # {'valid': True}

Each run gets a new process without network, environment variables or files other than a scratch folder, and with
limits on time, memory, output and files. ``docs/sandbox.md`` lists the guarantees by platform; :func:`probe` finds
those of this machine.
"""

from jeeves_reflexion.sandbox.guarantees import Guarantees, probe
from jeeves_reflexion.sandbox.limits import Language, Ran, SandboxLimits
from jeeves_reflexion.sandbox.sandbox import Sandbox

__all__ = ["Guarantees", "Language", "Ran", "Sandbox", "SandboxLimits", "probe"]
