"""The benchmarks that come with the command: ``jeeves-reflexion bench alfworld``.

In an installed package they lie in this folder; in the repository in ``benchmarks/`` at its top, as ``benchmarks``.
"""

from pathlib import Path

_here = Path(__file__).parent
if not (_here / "alfworld").is_dir():
    __path__.append(str(_here.parents[1] / "benchmarks"))
