from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.alfworld.names import encode_id, number_names

IDS = st.sets(
    st.builds(
        lambda kind, x, basin: encode_id(f"{kind}|{x:+06.2f}|+00.90" + ("|sinkbasin" if basin else "")),
        st.sampled_from(["cabinet", "sink", "mug", "loc"]),
        st.integers(-900, 900).map(lambda hundredths: hundredths / 100),
        st.booleans(),
    ),
    max_size=30,
)

# Asks ALFWorld itself; importing it makes a cache folder in the home, so this is a process with another home.
ASK_ALFWORLD = """
import json, sys
from types import SimpleNamespace
from alfworld.agents.utils.misc import Demangler
ids = json.load(sys.stdin)
demangler = Demangler(game_infos={i: SimpleNamespace(id=i) for i in ids})
json.dump({i: demangler.demangle_alfred_name(i) for i in ids}, sys.stdout)
"""


def test_things_of_a_type_are_numbered_downwards_in_the_order_of_their_ids():
    ids = [encode_id(text) for text in ("cabinet|-00.10", "cabinet|+00.10", "sink|1|sinkbasin", "agent1")]
    assert encode_id("a|+1.5|-2,0") == "a_bar__plus_1_dot_5_bar__minus_2_comma_0"
    assert number_names(ids) == {
        "cabinet_bar__minus_00_dot_10": "cabinet 2",
        "cabinet_bar__plus_00_dot_10": "cabinet 1",
        "sink_bar_1_bar_sinkbasin": "sinkbasin 1",
        "agent1": "agent1 ",
    }


@given(IDS)
def test_every_type_has_the_numbers_from_one_to_its_count(ids):
    names = number_names(ids)
    assert set(names) == ids
    assert len(set(names.values())) == len(ids)
    counts = Counter(name.split()[0] for name in names.values())
    assert set(names.values()) == {
        f"{kind} {number}" for kind, count in counts.items() for number in range(1, count + 1)
    }


@pytest.mark.engine
def test_names_are_those_that_alfworld_gives(engine, tmp_path):
    ids = [
        *(
            encode_id(f"{kind}|{x:+06.2f}|-01.00")
            for kind in ("cabinet", "mug", "loc")
            for x in (-2.5, 0.0, 1.25)
        ),
        encode_id("sink|-00.12|+00.88|-02.01|sinkbasin"),
        encode_id("sink|-00.12|+00.88|-02.01"),
        encode_id("bathtub|+00.12|bathtubbasin"),
        "agent1",
        "cabinettype",
    ]
    run = subprocess.run(
        [sys.executable, "-c", ASK_ALFWORLD],
        input=json.dumps(ids),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert number_names(ids) == json.loads(run.stdout)
