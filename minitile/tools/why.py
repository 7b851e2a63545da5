"""Why assembly synchronises, in words: what `minitile explain` and `minitile compile --why` print.

    line 51   bar.sync 0;
      by      thread_barriers
      reason  WAR A_shared and staged, in the same bytes (a write after a read)
      between gemm.py:67   T.gemm(A_shared, B_shared, C_local, transpose_B=True)
      and     gemm.py:68   T.copy(C_local, C[by * block_M, bx * block_N])

All of it stands in the text: a comment behind each fence, wait, barrier and mbarrier operation (ir/origin.py), and the
paths of the source files in `.file` directives. So it is the same for a kernel just compiled and for a file.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from minitile.ir.origin import PROGRAM, Origin, Places, file_name, read

_FILE = re.compile(r'^\s*\.file\s+\d+\s+"(.*?)"(?:\s+"(.*?)")?', re.MULTILINE)
_LINE = re.compile(r"^\s*([^\s/;.][^;]*?;?)\s+(?://|;) (\w+: .*)$")
_SEPARATOR = " | "  # of several origins of one instruction
_HAZARDS = {"RAW": "a read after a write", "WAR": "a write after a read", "WAW": "a write after a write"}


@dataclass(frozen=True, slots=True)
class Synchronisation:
    """What stands on the `lines` (from 1 on) of a text for one reason: the first of the instructions, and its
    origins."""

    lines: tuple[int, ...]
    instruction: str
    origins: tuple[Origin, ...]

    def serves(self, file: str, line: int) -> bool:
        """Whether a line of a source file is among those that it puts in order."""
        wanted = Path(file).resolve()
        return any(at.line == line and Path(at.file).resolve() == wanted for o in self.origins for at in _all(o))


def _all(origin: Origin) -> Places:
    return (*origin.before, *origin.after)


def synchronisation(text: str) -> list[Synchronisation]:
    """All that an assembly text says of what synchronises; neighbours of one origin together."""
    files: dict[str, str] = {}
    for first, second in _FILE.findall(text):
        path = f"{first}/{second}" if second else first
        files.setdefault(file_name(path), path)
    found: list[Synchronisation] = []
    for number, line in enumerate(text.splitlines(), 1):
        parts = _LINE.match(line)
        if parts is None:
            continue
        origins = tuple(o for each in parts[2].split(_SEPARATOR) if (o := read(each, files)) is not None)
        if not origins:
            continue
        if found and found[-1].origins == origins and _opcode(found[-1].instruction) == _opcode(parts[1]):
            found[-1] = Synchronisation((*found[-1].lines, number), found[-1].instruction, origins)
        else:
            found.append(Synchronisation((number,), parts[1], origins))
    return found


def _opcode(instruction: str) -> str:
    return next((word for word in instruction.split() if not word.startswith("@")), "")


def why(found: Iterable[Synchronisation]) -> str:
    """In words, with the source lines; of waits that are the assembler's own, how many there are."""
    everything = list(found)
    ours = [one for one in everything if any(map(_all, one.origins))]
    others = sum(len(one.lines) for one in everything if one not in ours)
    own = [f"{others} waits for registers, which LLVM has put in by itself"] if others else []
    return "\n\n".join([*map(_said, ours), *own])


def _said(one: Synchronisation) -> str:
    more = f"   and {len(one.lines) - 1} more like it" if len(one.lines) > 1 else ""
    lines = [("line " + str(one.lines[0]), one.instruction + more)]
    for origin in one.origins:
        lines += _rows(origin)
    return "\n".join(f"{name:<9} {text}" for name, text in lines)


def _rows(origin: Origin) -> Sequence[tuple[str, str]]:
    if origin.pass_name == PROGRAM:
        return [("  by", "the program itself"), *_places("  at", origin.before)]
    rows = [("  by", origin.pass_name), ("  reason", _in_words(origin.reason))]
    if not origin.before or not origin.after:
        return [*rows, *_places("  for", _all(origin))]
    return [*rows, *_places("  between", origin.before), *_places("  and", origin.after)]


def _in_words(reason: str) -> str:
    words = [_HAZARDS[kind] for kind in re.findall(r"\b(?:RAW|WAR|WAW)\b", reason)]
    return f"{reason} ({', '.join(words)})" if words else reason


def _places(name: str, places: Places) -> list[tuple[str, str]]:
    rows = []
    for at in places:
        text = linecache.getline(at.file, at.line).strip()
        rows.append((name, f"{file_name(at.file)}:{at.line:<4} {text}".rstrip()))
        name = ""
    return rows
