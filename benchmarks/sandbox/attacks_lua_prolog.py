"""Attacks in Lua and Prolog."""
# ruff: noqa: E501  the code of the attacks

from dataclasses import replace

from benchmarks.sandbox.attack import Attack

LUA = [
    Attack("execute", "os.execute('id')", ("error",)),
    Attack("io_open", "return io.open('/etc/passwd'):read()", ("error",)),
    Attack(
        "missing",
        "local n = {}\nfor _, k in ipairs{'os','io','package','debug','require','dofile','loadfile','python','loadstring',"
        "'collectgarbage','ffi','jit','newproxy'} do if _G[k] ~= nil then n[#n+1] = k end end\n"
        "if string.dump ~= nil then n[#n+1] = 'dump' end return array(n)",
        value=[],
    ),
    Attack("bytecode", "return load('\\27Lua')()", ("error",)),
    Attack("load_function", "return load(function() return nil end)", ("error",)),
    Attack("bridge_eval", "return python.eval('1+1')", ("error",)),
    Attack("bridge_input", "return tostring(host.__class__)", ("error",)),
    Attack("bridge_metatable", "local m = getmetatable('') return m.__index.dump == nil", value=True),
    Attack("loop", "while true do end", ("seconds",)),
    Attack("loop_in_pcall", "while true do pcall(function() while true do end end) end", ("seconds",)),
    Attack(
        "memory",
        "local t = {} while true do t[#t+1] = string.rep('x', 1000000) .. #t end",
        ("memory_mb", "seconds"),
    ),
    Attack(
        "pattern",
        "return string.find(string.rep('a', 40000), string.rep('.-', 30) .. 'b')",
        ("seconds", "error"),
    ),
    Attack("recursion", "local function f() return 1 + f() end return f()", ("error", "memory_mb")),
    Attack("function", "return function() end", ("error",)),
    Attack("in_itself", "local t = {} t[1] = t return t", ("error",)),
    Attack("nan", "return 0/0", ("error",)),
    Attack("output", "while true do print(string.rep('x', 10000)) end", ("output_bytes", "seconds")),
]
LUA = [replace(attack, name=f"lua_{attack.name}", language="lua") for attack in LUA]

_THROUGH = (
    'format("~@", [(open(\'result.json\', write, S), write(S, \'{"value": "through"}\'), close(S), halt)])'
)
"""A message whose printing would call a goal outside of ``library(sandbox)``."""
_GOAL = "open('result.json', write, S), write(S, '{\"value\": \"through\"}'), close(S), halt"
_LINK = (
    "format(\"~@\", [(use_foreign_library(foreign(files)), files:link_file('/etc/passwd', 'result.json', symbolic),"
    " halt)])"
)

PROLOG = [
    Attack("message_thrown", f"result(1) :- throw({_THROUGH}).", ("error",)),
    Attack("message_in_an_error", f"result(1) :- throw(error({_THROUGH}, _)).", ("error",)),
    Attack("message_of_a_directive", f":- throw({_THROUGH}).\nresult(1).", ("error",)),
    Attack("message_printed", f"result(1) :- print_message(error, {_THROUGH}).", value=1),
    Attack("message_warning", f"result(1) :- print_message(warning, {_THROUGH}).", value=1),
    Attack("result_linked", f"result(1) :- throw({_LINK}).", ("error",)),
    Attack("condition", f":- if(({_GOAL})).\n:- endif.\nresult(1).", ("error",)),
    Attack("condition_of_else", f":- if(fail).\n:- elif(({_GOAL})).\n:- endif.\nresult(1).", ("error",)),
    Attack("condition_by_name", f"p :- {_GOAL}.\n:- if(p).\n:- endif.\nresult(1).", ("error",)),
    Attack(
        "table_with_modes",
        f":- table p(lattice(q/3)).\nq(_, _, _) :- {_GOAL}.\np(1).\np(2).\nresult(1) :- p(_).",
        ("error",),
    ),
    Attack(
        "conditions_and_tables",
        ":- if(current_prolog_flag(bounded, false)).\n:- table p(_, min).\n:- endif.\np(a, 2).\np(a, 1).\nresult(X) :- p(a, X).",
        value=1,
    ),
    Attack("shell", "result(X) :- shell('id', X).", ("error",)),
    Attack("shell_called", "result(1) :- G =.. [shell, 'id'], call(G).", ("error",)),
    Attack("shell_by_module", "result(1) :- system:shell('id').", ("error",)),
    Attack("directive", ":- shell('id').\nresult(1).", ("error",)),
    Attack("initialization", ":- initialization(shell('id')).\nresult(1).", ("error",)),
    Attack("expansion", "term_expansion(a, b) :- shell('id').\na.\nresult(1).", ("error",)),
    Attack("open", "result(X) :- open('/etc/passwd', read, S), read_term(S, X, []).", ("error",)),
    Attack("consult", "result(1) :- consult('/etc/passwd').", ("error",)),
    Attack(
        "library",
        ":- use_module(library(process)).\nresult(1) :- process_create('/bin/sh', [], []).",
        ("error",),
    ),
    Attack("socket", ":- use_module(library(socket)).\nresult(1) :- tcp_socket(_).", ("error",)),
    Attack("halt", "result(1) :- halt.", ("error",)),
    Attack("halt_directive", ":- halt.\nresult(1).", ("error",)),
    Attack(
        "user_hook",
        ":- multifile user:portray/1.\nuser:portray(_) :- shell('id').\nresult(f(1)).",
        ("error",),
    ),
    Attack(
        "redefine",
        ":- module(evil, []).\nsandbox:safe_primitive(system:shell(_)).\nresult(1) :- shell('id').",
        ("error",),
    ),
    Attack("environment", "result(X) :- getenv('PATH', X).", ("error",)),
    Attack("loop", "result(X) :- result(X).\n", ("seconds", "memory_mb")),
    Attack("loop_flat", "loop :- repeat, fail.\nresult(1) :- loop.", ("seconds",)),
    Attack("memory", "grow(L) :- grow([x|L]).\nresult(1) :- grow([]).", ("memory_mb", "seconds")),
    Attack("failure", "result(1) :- fail.", ("error",)),
    Attack("syntax", "result(1 :- x.", ("error",)),
    Attack("unbound", "result(_).", ("error",)),
    Attack("nothing", "foo(1).", ("error",)),
]
PROLOG = [
    replace(
        attack, name=f"prolog_{attack.name}", language="prolog", limits=replace(attack.limits, memory_mb=256)
    )
    for attack in PROLOG
]
