"""Rendering of templates. Texts are escaped, and characters that hide or reorder text are made visible."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import jinja2
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from jeeves_reflexion.summary import counted, lift_words, when
from jeeves_reflexion.text import abridge, cut_middle

_MAX_TOKENS: Final = 2_000
# Control characters, changes of writing direction, characters without width, tags, surrogates and noncharacters.
_HIDING: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)


def number_of(text: str, default: int) -> int:
    """Return the number that a text holds, else the default."""
    return int(text) if text.isdecimal() and len(text) < 10 else default


def shown(value: object) -> object:
    """Return a text with each character that hides or reorders text replaced by its code point."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=jinja2.StrictUndefined,
    finalize=shown,
)
_TEMPLATES.filters |= {
    "when": lambda at: when(at, "%Y-%m-%d %H:%M") or "-",
    "score": lambda value: "not scored" if value is None else f"{value:.2f}",
    "lift": partial(lift_words, counts="{} attempts with it, {} without"),
    "cut": partial(cut_middle, max_tokens=_MAX_TOKENS),
    "abridge": abridge,
    "counted": counted,
}


def render(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Render a page. Blocks."""
    about = {**request.app.state.about, "path": request.scope["path"], **values}
    return HTMLResponse(_TEMPLATES.get_template(f"{name}.html").render(about), status)


async def page(request: Request, name: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    """Render a page in a worker thread."""
    return await anyio.to_thread.run_sync(partial(render, request, name, status, **values))
