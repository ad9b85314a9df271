"""Code out of replies, and programs out of solutions."""

import textwrap
import time

from hypothesis import given
from hypothesis import strategies as st
from tables import table

from benchmarks.humaneval.programs import defines, preamble, program_of, solution_in

PROMPT = 'import math\n\n\ndef helper(x):\n    return x + 1\n\n\ndef area(r):\n    """Return the area."""\n'
WHOLE = "def area(r):\n    if r < 0:\n        return 0\n    return math.pi * r * r\n"
BODY = "    if r < 0:\n        return 0\n    return math.pi * r * r\n"
FLAT = textwrap.dedent(BODY)


def area(solution):
    names = {}
    exec(solution, names)
    return round(names["area"](1), 3), names["area"](-1), names["helper"](1)


@table(
    "reply",
    [
        WHOLE,
        BODY,
        FLAT,
        BODY.lstrip(),  # the first line lost its indentation
        textwrap.indent(FLAT, "        "),
        textwrap.indent(FLAT, "  "),
        FLAT.replace("    ", "\t"),
        f"```python\n{WHOLE}```",
        f"```\n{BODY}```",
        f"~~~py\n{FLAT}~~~",
        f"Here is the function:\n\n```python\n{WHOLE}```\n\nIt returns 0 for negative numbers.",
        f"```python\n{WHOLE}",  # cut off before the fence was closed
        f"  ```python\n{textwrap.indent(WHOLE, '  ')}  ```",
        f"Example of use:\n```python\nprint(area(1))\n```\nThe function:\n```python\n{WHOLE}```",
        f"Sure! Here you go:\n\n{WHOLE}\nThis handles negative numbers, too.",
        f"Sure! Here you go:\n\n{FLAT}",
        f"import math\nfrom os import path\n\n{WHOLE}",
        f"{PROMPT}{BODY}",
        f"```python\n{PROMPT}{BODY}```",
        "area = lambda r: 0 if r < 0 else math.pi * r * r",
        f"{WHOLE}\nassert area(1) > 3\n",
    ],
)
def test_the_solution_is_found_in_any_reply(reply):
    solution = solution_in(reply, PROMPT, "area")
    assert area(solution) == (3.142, 0, 2)
    assert defines(solution, "area")


def test_no_code_is_an_empty_solution():
    for reply in ["", "I can't do that.", "```\n```", "Sure", "def other(:\n", "\x00"]:
        assert solution_in(reply, PROMPT, "area") == ""


@given(
    st.sampled_from([WHOLE, BODY, FLAT]),
    st.integers(0, 3),
    st.sampled_from(["", "Here it is:\n\n", "The answer.\n\n"]),
    st.sampled_from(["", "\nDone.", "\n\nI hope that this helps!"]),
)
def test_indentation_and_words_around_a_fence_change_nothing(code, indents, before, after):
    reply = f"{before}```python\n{textwrap.indent(code, '    ' * indents)}```{after}"
    assert area(solution_in(reply, PROMPT, "area")) == (3.142, 0, 2)


@given(st.text(max_size=200))
def test_any_reply_gives_a_solution_that_defines_the_function_or_none(reply):
    solution = solution_in(reply, PROMPT, "area")
    assert solution == "" or defines(solution, "area")


def test_a_solution_to_score_is_not_mended():
    assert program_of(PROMPT, "area", BODY) == PROMPT + BODY
    assert program_of(PROMPT, "area", FLAT) == PROMPT + FLAT  # no Python, and it stays so
    whole = program_of(PROMPT, "area", WHOLE)
    assert whole.startswith("import math")
    assert whole.count("def area") == 1


def test_the_preamble_is_what_stands_before_the_function():
    assert preamble(PROMPT, "area").rstrip().endswith("return x + 1")
    assert preamble("def area(r):\n", "area") == ""
    assert preamble("import math\n@cache\ndef area(r):\n", "area") == "import math\n"
    assert preamble("no python", "area") == "no python"


def test_a_long_reply_without_code_takes_no_time():
    reply = "import nothing that is code\ndef area is a function of\n" * 300
    started = time.monotonic()
    assert solution_in(reply, PROMPT, "area") == ""
    assert time.monotonic() - started < 20
