"""Reads the text form of ReAct: ``Thought: … Action: tool[argument]`` (Yao et al. 2023, appendix C)."""

from __future__ import annotations

import contextlib
import json
import re
import textwrap
from dataclasses import dataclass, replace

from jeeves_reflexion.models.near_json import NotJSONError, json_or_none, read_value
from jeeves_reflexion.models.replies import after_label, agreed, objects, unwrapped
from jeeves_reflexion.models.thoughts import answer, fences

FINISH = "finish"

_LABEL = re.compile(
    r"^ {0,3}(?:[*_#`][*_#` ]*+)?(?P<label>thought|action[ _]input|action|observation|final[ _]answer)"
    r"[ \t]*\d*[*_` ]*[:\uff1a][*_` ]*",
    re.IGNORECASE | re.MULTILINE,
)
_CALL = re.compile(r"[`'\"*]*(?P<name>[A-Za-z0-9_-]+)[`'\"*]*\s*", re.DOTALL)
_EMPHASISED = re.compile(r"(?P<mark>\*{1,3}|`)(?P<text>[^*`]+)(?P=mark)")
# No action, or the prompt's own form of one.
_NO_CALL = re.compile(
    r"\W*(?:(?:none|null|n/a|nothing)\W*(?:\n|\Z)|tool\[argument\]|finish\[the answer\]|tool \{\"name\": value\})",
    re.IGNORECASE,
)
_END_OF_LINE = re.compile(r"[ \t`*.]*(?:\n|\Z)")
_HEADING = re.compile(
    r"^ {0,3}#{2,6}[ \t]+(thought|action[ _]input|action|final[ _]answer)[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_PAIRS = {
    "[": "]",
    "(": ")",
    "\uff3b": "\uff3d",
    "\uff08": "\uff09",
    "\u3010": "\u3011",
}  # the last are full-width


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's thought and the call of a tool, or the problem with its reply.

    ``cut`` is true if something after the action was left out, such as an observation that the model made up.
    """

    thought: str = ""
    tool: str = ""
    argument: str = ""
    problem: str = ""
    cut: bool = False

    @property
    def finished(self) -> bool:
        """Whether this is the answer rather than a call."""
        return not self.problem and self.tool.lower() == FINISH

    @property
    def action(self) -> str:
        """The action in the form of the paper; empty if there is none."""
        if not self.tool:
            return ""
        in_json = self.argument.startswith("{")
        return f"{self.tool} {self.argument}" if in_json else f"{self.tool}[{self.argument}]"


def parse_reply(text: str) -> Reply:
    """Read a reply.

    Actions in thinking and in quotations (block quotations, indented blocks, fences with text after them) don't count.
    Everything after the first action is left out, since the model can't know the observation yet. A reply without
    labels may be a JSON object with the tool's name and its arguments.
    """
    text = _HEADING.sub(r"\1:", unwrapped(textwrap.dedent(answer(text))))
    own = _unquoted(text)
    labels = list(_LABEL.finditer(own))
    starts = [label.start() for label in labels] + [len(own)]
    thought = own[: starts[0]].strip()
    sections = [
        (label["label"].lower().replace("_", " "), after_label(label[0], own[label.end() : end]).strip())
        for label, end in zip(labels, starts[1:], strict=True)
    ]
    for place, (label, body) in enumerate(sections):
        match label:
            case "thought":
                thought = f"{thought}\n{body}".strip()
            case "final answer" if body:
                return Reply(thought, "Finish", _plain(body))
            case "action":
                if sections[place + 1 :] and sections[place + 1][0] == "action input":
                    body = f"{body} {_unfenced(sections[place + 1][1])}"  # noqa: PLW2901
                reply = _action(thought, body)
                return replace(reply, cut=not _words(text).endswith(_words(reply.argument or reply.tool)))
            case "observation":
                break
    return _call_in_json(text, thought) or Reply(thought, problem="it has no line that begins with 'Action:'")


def _unquoted(text: str) -> str:
    """Return a reply without block quotations, and without fences that are followed by the model's own text."""
    lines = ["" if line.lstrip().startswith(">") else line for line in text.split("\n")]
    text = "\n".join(lines)
    for start, end in reversed(fences(text)):
        after = text[end:].strip()
        label = text[:start].rstrip().rsplit("\n", 1)[-1]
        named = _LABEL.match(label)
        if after and (named is None or named["label"].lower() == "thought"):
            text = text[:start] + text[end:]
    return text


def _call_in_json(text: str, thought: str) -> Reply | None:
    """Read a call from an object such as ``{"action": "search", "action_input": "Paris"}`` on lines of its own."""
    stated = agreed(
        [one for one in objects(text) if one.plain], lambda value: json.dumps(value, sort_keys=True)
    )
    if stated is None:
        return None
    fields = {key.strip().lower(): value for key, value in stated.value.items()}
    name = next((fields[key] for key in ("action", "tool", "name") if key in fields), None)
    keys = ("action_input", "arguments", "args", "input", "parameters")
    argument = next((fields[key] for key in keys if key in fields), None)
    if not isinstance(name, str) or argument is None:
        return None
    return _action(
        thought,
        f"{name} {argument if isinstance(argument, str) else json.dumps(argument, ensure_ascii=False)}",
    )


def _action(thought: str, body: str) -> Reply:
    body = _unfenced(body)
    if body.lstrip("`json \n").startswith("{") and (named := _call_in_json(body, thought)):
        return named
    call = _CALL.match(body)
    if call is None or _NO_CALL.match(body):
        return Reply(thought, problem="no tool is named after 'Action:'")
    name, rest = call["name"], body[call.end() :].lstrip(": \t\n")
    argument = rest
    if rest[:1] in _PAIRS:
        argument = _between(rest, rest[0], _PAIRS[rest[0]])
    elif rest.startswith("{"):
        with contextlib.suppress(NotJSONError):  # what follows the object is left out
            argument = json.dumps(read_value(rest, 0)[0], ensure_ascii=False)
    elif rest.startswith("```"):
        argument = _unfenced(rest)
    else:
        argument = rest.split("\n", 1)[0].strip("` ")
    if name.lower() == FINISH:
        answered = json_or_none(argument)
        if isinstance(answered, dict) and len(answered) == 1:  # Finish {"answer": ...}
            (only,) = answered.values()
            argument = only if isinstance(only, str) else json.dumps(only, ensure_ascii=False)
        elif isinstance(answered, str):
            argument = answered
        argument = _plain(argument)
    return Reply(thought, name, argument)


def _plain(text: str) -> str:
    """Return an answer without emphasis around the whole of it; ``__init__`` is a name."""
    whole = _EMPHASISED.fullmatch(text)
    return whole["text"] if whole else text


def _between(text: str, opening: str, closing: str) -> str:
    """Return the text between the bracket that begins it and the bracket that closes it.

    That is the balancing bracket. If the brackets don't pair, because another closing one follows later, it is the last
    closing bracket at the end of a line. Without a closing bracket the argument extends to the end of the text.
    """
    depth, end, unpaired = 0, -1, False
    for place, character in enumerate(text):
        depth += (character == opening) - (character == closing)
        if end < 0 and depth == 0:
            end = place
            if _END_OF_LINE.match(text, place + 1):
                break
        elif depth < 0:
            unpaired = True
            break
    if end < 0 or unpaired:
        ends = (place for place, character in enumerate(text) if character == closing)
        end = max((place for place in ends if _END_OF_LINE.match(text, place + 1)), default=end)
    return text[1 : end if end > 0 else len(text)].strip()


def _words(text: str) -> str:
    return re.sub(r"[\W_]+", "", text)


def _unfenced(text: str) -> str:
    """Return the content of the fence that begins a text; any other text as it is."""
    inner = re.match(r"\s*```\w*\n(.*?)\n?```", text, re.DOTALL)
    return (inner[1] if inner else text).strip()
