% Loads code.pl under library(sandbox), calls its goal once, and writes the outcome to result.json.

:- use_module(library(sandbox)).
:- use_module(library(http/json)).
:- use_module(library(lists)).
:- use_module(library(apply)).
:- use_module(library(pairs)).
:- use_module(library(prolog_wrap)).

% Two kinds of goals are called by swipl itself, and never seen by library(sandbox): the conditions of ":- if" and
% ":- elif", and what joins the answers of tables with modes (":- table p(lattice(q/3))"). They are checked here.
:- wrap_predicate('$expand':'$eval_if'(Goal), sandboxed, Call,
                  ('$current_source_module'(Module), safe_goal(Module:Goal), Call)).
:- wrap_predicate('$tabling':update(_, Head, Module, _, _, _, _), sandboxed, Call,
                  (safe_goal(Module:'$table_update'(Head, _, _, _)), Call)).

:- dynamic load_problem/2.

% A directive that the sandbox refuses, or a line that can't be read, is an error of the whole program: without this,
% swipl would print it and go on. It always succeeds, so that swipl prints no message itself: a message is a term of the
% code, and format/3 would call what stands at "~@" in it, or at "~p" a hook, outside of library(sandbox).
user:message_hook(Message, Kind, _) :-
    (   memberchk(Kind, [error, warning])
    ->  text(Message, Text),
        format(user_error, "~w: ~w~n", [Kind, Text]),
        (   Kind == error
        ->  ( source_location(File, Line), file_base_name(File, 'code.pl') -> true ; Line = null ),
            ( syntax_line(Message, Found) -> At = Found ; At = Line ),
            assertz(load_problem(Text, At))
        ;   true
        )
    ;   true
    ).

syntax_line(error(syntax_error(_), file(_, Line, _, _)), Line).
syntax_line(error(syntax_error(_), stream(_, Line, _, _)), Line).

main :-
    catch(outcome(Outcome), Error, problem(Error, Outcome)),
    catch(finish(Outcome), Error2, ( problem(Error2, Outcome2), finish(Outcome2) )),
    halt(0).

finish(Outcome) :-
    with_output_to(string(Text), json_write_dict(current_output, Outcome, [width(0)])),
    setup_call_cleanup(open('result.json', write, Stream, [encoding(utf8)]), write(Stream, Text), close(Stream)).

outcome(Outcome) :-
    setup_call_cleanup(
        open('inputs.json', read, In, [encoding(utf8)]),
        json_read_dict(In, Inputs, [value_string_as_atom(false), default_tag(json)]),
        close(In)),
    load_files(code:'code.pl', [sandboxed(true), silent(true), if(true)]),
    findall(Text-Line, load_problem(Text, Line), Problems),
    (   Problems = [_-Line|_]
    ->  pairs_keys(Problems, Texts),
        atomic_list_concat(Texts, '\n', Text),
        Outcome = _{error: _{kind: raised, type: load_error, message: Text, line: Line}}
    ;   goal(Inputs, Result, Goal)
    ->  call_goal(Goal, Result, Outcome)
    ;   Outcome = _{error: _{kind: raised, type: existence_error,
            message: "the code defines none of evaluate/3, result/2 and result/1", line: null}}
    ).

goal(Inputs, Result, code:evaluate(Output, State, Result)) :-
    defined(evaluate, 3), !,
    input(output, Inputs, Output),
    input(state, Inputs, State).
goal(Inputs, Result, code:result(Inputs, Result)) :- defined(result, 2), !.
goal(_, Result, code:result(Result)) :- defined(result, 1).

defined(Name, Arity) :-
    functor(Head, Name, Arity),
    predicate_property(code:Head, defined),
    \+ predicate_property(code:Head, imported_from(_)).

input(Name, Inputs, Value) :- ( get_dict(Name, Inputs, Found) -> Value = Found ; Value = null ).

call_goal(Goal, Result, Outcome) :-
    safe_goal(Goal),
    (   call(Goal)
    ->  ( plain(Result, 0, JSON) -> Outcome = _{value: JSON} ; no_json(Result, Outcome) )
    ;   Outcome = _{error: _{kind: raised, type: failure, message: "the goal failed: it has no solution", line: null}}
    ).

no_json(Result, _{error: _{kind: value, type: type_error, message: Message, line: null}}) :-
    text(Result, Text),
    string_concat("result is not JSON: ", Text, Message).

% Atoms and strings are text, but for true, false and null; json([k=v]) and dicts are objects.
plain(Value, _, _) :- var(Value), !, fail.
plain(_, Depth, _) :- Depth > 200, !, fail.
plain(Value, _, Value) :- ( number(Value), \+ ( rational(Value), \+ integer(Value) ) ; string(Value) ), !.
plain([], _, []) :- !.
plain(Value, _, Value) :- memberchk(Value, [true, false, null]), !.
plain(Value, _, Text) :- atom(Value), !, atom_string(Value, Text).
plain(Value, Depth, Plain) :- is_list(Value), !, Next is Depth + 1, maplist(plain_at(Next), Value, Plain).
plain(json(Pairs), Depth, Dict) :- is_list(Pairs), !, dict_create(Raw, json, Pairs), plain(Raw, Depth, Dict).
plain(Value, Depth, Dict) :-
    is_dict(Value),
    Next is Depth + 1,
    dict_pairs(Value, _, Pairs),
    maplist(plain_pair(Next), Pairs, Plain),
    dict_pairs(Dict, json, Plain).

plain_at(Depth, Value, Plain) :- plain(Value, Depth, Plain).
plain_pair(Depth, Key-Value, Key-Plain) :- plain(Value, Depth, Plain).

problem(Error, _{error: _{kind: Kind, type: Type, message: Message, line: null}}) :-
    ( subsumes_term(error(resource_error(_), _), Error) -> Kind = memory_mb ; Kind = raised ),
    ( Error = error(Formal, _), nonvar(Formal) -> functor(Formal, Name, _) ; Name = exception ),
    atom_string(Name, Type),
    text(Error, Message).

% A term of the code as text: written, never formatted, and without hooks (portray). Of an error, what it is and where.
text(Term, Text) :-
    (   nonvar(Term), Term = error(Formal, Context), nonvar(Formal)
    ->  written(Formal, Said),
        (   nonvar(Context), Context = context(Where, Detail), ( nonvar(Where) ; nonvar(Detail) )
        ->  ( var(Where) -> Parts = [Detail] ; var(Detail) -> Parts = [Where] ; Parts = [Where, Detail] ),
            maplist(written, Parts, Texts),
            atomic_list_concat([Said|Texts], ', in ', Text0),
            atom_string(Text0, Text)
        ;   Text = Said
        )
    ;   written(Term, Text)
    ).

written(Term, Text) :-
    with_output_to(string(Text),
        write_term(Term, [quoted(true), max_depth(20), portray(false), numbervars(true), attributes(ignore)])).
