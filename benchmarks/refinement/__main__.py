"""``python -m benchmarks.refinement``: the same as ``jeeves-reflexion bench refinement``."""

from benchmarks.refinement.command import refinement

if __name__ == "__main__":
    refinement()
