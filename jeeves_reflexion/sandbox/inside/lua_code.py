"""Runs Lua code with ``lupa``, after removing every way out of Lua."""

from __future__ import annotations

import os
import re
import sys
from importlib import util
from typing import Any, NoReturn

from . import messages

_MESSAGE = 2_000
_LINE = re.compile(r"\[string \"<code>\"\]:(\d+): ?")

_PREPARE = """
local null, arrays, objects = ...
local unwanted = {
  'os', 'io', 'package', 'debug', 'require', 'module', 'dofile', 'loadfile', 'loadstring', 'python', 'ffi', 'jit',
  'newproxy', 'setfenv', 'getfenv', 'collectgarbage',
}
for _, name in ipairs(unwanted) do _G[name] = nil end
string.dump = nil
local plain_load, type = load, type
-- text only: compiled Lua is not checked by the machine that runs it
_G.load = function(chunk, name, mode, env)
  if type(chunk) ~= 'string' then error('load takes text only', 2) end
  if env == nil then env = _G end
  return plain_load(chunk, name, 't', env)
end
_G.null = null
_G.array = function(t) arrays[t] = true; return t end
_G.object = function(t) objects[t] = true; return t end
return function(source) return plain_load(source, '=[string "<code>"]', 't', _G) end
"""

_module: Any = None


def prepare(folder: str) -> None:
    """Load ``lupa`` from its folder, since the folder around it can't be read. Raises ``OSError`` if that fails."""
    global _module  # noqa: PLW0603
    spec = util.spec_from_file_location("lupa", f"{folder}/__init__.py", submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise OSError(f"{folder} holds no package that can be loaded")
    module = util.module_from_spec(spec)
    sys.modules["lupa"] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise OSError(f"lupa can't be loaded in the sandbox: {error}") from None
    _module = module


def run(request: dict[str, Any], result: int) -> NoReturn:
    """Run the code of a request, write its value or error to ``result``, and end the process."""
    try:
        answer = b'{"value": ' + messages.encode(_evaluate(request), messages.RESULT) + b"}"
    except ValueError as error:
        answer = _error("value", "ValueError", str(error))
    except (MemoryError, _module.LuaMemoryError):
        answer = _error("memory_mb", "LuaMemoryError", "not enough memory")
    except (_module.LuaError, RecursionError, UnicodeError) as error:
        answer = _error("raised", type(error).__name__, str(error))
    sys.stdout.flush()
    messages.send(result, answer)
    os._exit(0)


def _error(kind: str, name: str, message: str) -> bytes:
    match = _LINE.search(message)
    text = message.encode("utf-8", "replace").decode()
    text = _LINE.sub("", text.partition("\nstack traceback")[0], count=1)[:_MESSAGE]
    line = int(match.group(1)) if match else None
    return messages.failure(kind=kind, type=name, message=text, line=line)


def _refuse(_object: object, _name: object, _setting: bool) -> str:  # noqa: FBT001
    raise AttributeError("Lua code can't reach Python objects")


def _evaluate(request: dict[str, Any]) -> object:
    """Return the code's value. Lua's memory is free again afterwards: encoding a large value may need it."""
    lua = _module.LuaRuntime(
        unpack_returned_tuples=False,
        register_eval=False,
        register_builtins=False,
        attribute_filter=_refuse,
    )
    # weak keys, so that a mark does not keep its table in memory
    weak = lua.eval("function() return setmetatable({}, {__mode = 'k'}) end")
    null = lua.eval("setmetatable({}, {__tostring = function() return 'null' end})")
    arrays, objects = weak(), weak()
    convert = _Conversion(lua, null, arrays, objects)
    names = lua.globals()
    load = lua.execute(_PREPARE, null, arrays, objects)
    for name, value in request["inputs"].items():
        names[name] = None if value is None else convert.to_lua(value)
    loaded = load(request["code"])
    if isinstance(loaded, tuple):  # nil and the message
        raise _module.LuaSyntaxError(loaded[1])
    returned = loaded()
    if isinstance(returned, tuple):
        returned = returned[0]
    if returned is None:
        returned = names[messages.RESULT]
    return convert.to_json(returned, 0)


class _Conversion:
    """Converts between Lua tables and JSON values; marks say whether a table is an array or an object."""

    def __init__(self, lua: Any, null: Any, arrays: Any, objects: Any) -> None:  # noqa: ANN401  lupa has no types
        self._table = lua.table
        self._kind = _module.lua_type
        self._same = lua.eval("rawequal")
        self._null, self._arrays, self._objects = null, arrays, objects

    def to_lua(self, value: object) -> object:
        if value is None:
            return self._null
        if isinstance(value, dict):
            table = self._table()
            for key, item in value.items():
                table[key] = self.to_lua(item)
            self._objects[table] = True
            return table
        if isinstance(value, list):
            table = self._table(*[self.to_lua(item) for item in value])
            self._arrays[table] = True
            return table
        return value

    def to_json(self, value: Any, depth: int) -> object:  # noqa: ANN401
        if depth > 200:
            raise ValueError("the value is nested deeper than 200 levels, or in itself")
        kind = self._kind(value)
        if kind is None:
            return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        if kind != "table":
            raise ValueError(f"the value is not JSON: a {kind} of Lua")
        if self._same(value, self._null):
            return None
        items = list(value.items())
        size = len(items)
        listed = not self._objects[value] and (
            self._arrays[value] or all(isinstance(key, int) and 1 <= key <= size for key, _ in items)
        )
        if listed:
            return [self.to_json(value[index], depth + 1) for index in range(1, size + 1)]
        if not all(isinstance(key, str) for key, _ in items):
            raise ValueError(
                "the value is not JSON: a table of Lua whose keys are neither 1, 2, 3, ... nor all text"
            )
        return {key: self.to_json(item, depth + 1) for key, item in items}
