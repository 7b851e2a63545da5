"""The source of functions that stand in no file: made by `exec`, by `python -c`, or typed at the prompt.

Python compiles such text and forgets it (a notebook's cells, and the prompt from Python 3.13 on, are in linecache).
What may be the text is looked for where it can still lie, and is taken only if it compiles to the very code that the
function has, places of instructions included:

- `python -c TEXT`: among the words that Python was started with;
- `python < FILE`: in that file;
- a prompt: the last lines of readline's history;
- `exec(text)`: while that runs, in the variables and constants of the functions around it.

For text that was built in place (`exec(open(…).read())`) there is no such variable: then `linecache` can be told.
"""

from __future__ import annotations
import __future__

import os
import stat
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_HISTORY = 2000  # lines of the prompt's history that are looked through
_LONGEST = 1 << 20  # characters of a text
HINT = (
    "kernels are read from source files, notebook cells and the prompt; for text that a program makes: keep it in a "
    "variable where exec(text, …) stands, or name it first: linecache.cache[name] = (len(text), None, "
    "text.splitlines(True), name), and exec(compile(text, name, 'exec'), …)"
)


def typed_source(function: FunctionType) -> list[str]:
    """The lines of the text that a function without a file was compiled from; none where that is not found."""
    code = function.__code__
    if not (code.co_filename.startswith("<") and code.co_filename.endswith(">")):
        return []
    for text, mode, whole in _candidates(code):
        if len(text) <= _LONGEST and code.co_name in text and _makes(text, mode, whole, code):
            return text.splitlines(keepends=True)
    return []


def _candidates(code: CodeType) -> Iterator[tuple[str, str, CodeType | None]]:
    """Texts that may be it, each with the mode of `compile` that it went through and what came out, where that is at
    hand."""
    words = sys.orig_argv
    if code.co_filename == "<string>" and "-c" in words[:-1]:
        text = words[words.index("-c") + 1]
        yield text + "\n", "exec", None
        yield text, "exec", None
    if code.co_filename == "<stdin>":
        yield from ((text, "exec", None) for text in _standard_input())
    for statement in _typed(code.co_name):
        yield statement, "single", None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == code.co_filename and frame.f_code.co_name == "<module>":
            around = frame.f_back
            if around is not None and _holds(frame.f_code, code):
                for text in _texts(around):
                    yield text, "exec", frame.f_code
        frame = frame.f_back


def _texts(frame: FrameType) -> Iterator[str]:
    """The strings that a function in progress names, its own first."""
    for values in (frame.f_locals.values(), frame.f_code.co_consts, frame.f_globals.values()):
        for value in [*values]:
            if isinstance(value, str):
                yield value


def _standard_input() -> Iterator[str]:
    """What was read from there, if that is a file."""
    try:
        about = os.fstat(0)
        if stat.S_ISREG(about.st_mode):
            yield os.pread(0, min(about.st_size, _LONGEST), 0).decode()
    except (OSError, UnicodeDecodeError, AttributeError):  # closed, no UTF-8, or Windows
        return


def _typed(name: str) -> Iterator[str]:
    """Of the prompt's history the statements that define a function, the last one first."""
    readline = sys.modules.get("readline")
    if readline is None or not hasattr(sys, "ps1"):
        return
    count = readline.get_current_history_length()
    lines = [readline.get_history_item(n) or "" for n in range(max(1, count - _HISTORY), count + 1)]
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].split("(")[0].split() != ["def", name]:
            continue
        first = at
        while first > 0 and lines[first][:1] in (" ", "\t"):  # a method stands in its class
            first -= 1
        while first > 0 and lines[first - 1].startswith("@"):
            first -= 1
        last = at + 1
        while last < len(lines) and lines[last][:1] in (" ", "\t", ")"):
            last += 1
        yield "\n".join(lines[first:last]) + "\n"


def _makes(text: str, mode: str, whole: CodeType | None, code: CodeType) -> bool:
    try:
        made = compile(text, code.co_filename, mode, code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return _holds(made, code) if whole is None else _same(made, whole)


def _holds(outer: CodeType, code: CodeType) -> bool:
    """Whether the very same code stands in another: equal, and at equal places."""
    pending = [outer]
    for each in pending:  # grows meanwhile
        if each.co_name == code.co_name and _same(each, code):
            return True
        pending += _inside(each)
    return False


def _same(one: CodeType, other: CodeType) -> bool:
    """Equal, with all that is inside, and at equal places."""
    return (
        one == other
        and [*one.co_positions()] == [*other.co_positions()]
        and all(_same(a, b) for a, b in zip(_inside(one), _inside(other), strict=True))
    )


def _inside(code: CodeType) -> list[CodeType]:
    return [c for c in code.co_consts if isinstance(c, CodeType)]
