"""The one place where code that a user or a model wrote is executed.

    async with Sandbox() as sandbox:
        ran = await sandbox.run("result = {'valid': '@' in output}", inputs={"output": "a@b.c"})
        ran.value  # {'valid': True}

Every run has a process of its own, without network, environment variables or files beyond a scratch folder, and with
limits on time, memory, output and files. ``docs/sandbox.md`` says what is guaranteed where; :func:`probe`
says it of this machine.
"""

from jeeves_reflexion.sandbox.guarantees import Guarantees, probe
from jeeves_reflexion.sandbox.limits import Language, Ran, SandboxLimits
from jeeves_reflexion.sandbox.sandbox import Sandbox

__all__ = ["Guarantees", "Language", "Ran", "Sandbox", "SandboxLimits", "probe"]
