"""The labelled texts for the screen.

``corpora/attacks.jsonl`` holds texts that command whoever reads them, by kind; ``corpora/benign.jsonl`` lessons, most
of them near misses that use an attack's words. Half of each was not used to write the patterns.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

CORPORA = Path(__file__).with_name("corpora")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of a corpus: its half, its kind and its language."""

    split: str
    kind: str
    text: str
    language: str = "en"


def load(name: str) -> list[Sample]:
    """Read a corpus that lies beside this file."""
    lines = (CORPORA / name).read_text(encoding="utf-8").splitlines()
    return [Sample(**json.loads(line)) for line in lines]
