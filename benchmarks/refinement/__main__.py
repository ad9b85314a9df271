"""``python -m benchmarks.refinement``: the same as ``jeeves-reflexion bench refinement``."""

from .command import refinement

if __name__ == "__main__":
    refinement()
