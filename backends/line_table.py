"""Which line of the user's source each line of an assembly text comes from.

PTX, GCN    `.loc FILE LINE COLUMN` holds for what follows; `.file NUMBER "FOLDER" "NAME"` (the folder may be missing)
LLVM IR     `!dbg !N` behind an instruction; !N is a DILocation, whose scope names a DIFile

Sources: PTX ISA 8.3, 11.5.3 (`.file`), 11.5.4 (`.loc`); GNU as, 7.59 (`.loc`), where line 0 is of no source; LLVM 22,
Language Reference, "Specialized Metadata Nodes".
"""

from __future__ import annotations

import re

Place = tuple[str, int]  # a file and a line of it, from 1

_FILE = re.compile(r'^\s*\.file\s+(\d+)((?:\s+"(?:[^"\\]|\\.)*")+)', re.MULTILINE)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_SILENT = re.compile(r"\s*(?:$|\.|//|;|\}|\{|\))")  # directives, comments, what encloses: no instructions
_DBG = re.compile(r"!dbg !(\d+)\s*(?:\{\s*)?$")
_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: (\d+),.* scope: !(\d+)", re.MULTILINE)
_SCOPE = re.compile(r"^!(\d+) = .*!DI(?:Subprogram|LexicalBlockFile)\(.*\bfile: !(\d+)", re.MULTILINE)
_DIFILE = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]*)"', re.MULTILINE)


def line_table(text: str) -> list[Place | None]:
    """For each line of the text where it comes from: (file, line); None where nothing says so."""
    return _metadata(text) if "!DILocation(" in text else _directives(text)


def _directives(text: str) -> list[Place | None]:
    files = {number: "/".join(map(_unquoted, _STRING.findall(names))) for number, names in _FILE.findall(text)}
    table: list[Place | None] = []
    here: Place | None = None
    for line in text.splitlines():
        if found := _LOC.match(line):
            here = (files[found[1]], int(found[2])) if found[1] in files and found[2] != "0" else None
        table.append(None if _SILENT.match(line) else here)
    return table


def _metadata(text: str) -> list[Place | None]:
    files = {
        number: re.sub(r"\\([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), name) for number, name in _DIFILE.findall(text)
    }
    scopes = {number: files[file] for number, file in _SCOPE.findall(text) if file in files}
    places = {number: (scopes[scope], int(line)) for number, line, scope in _LOCATION.findall(text) if scope in scopes}
    return [places.get(found[1]) if (found := _DBG.search(line)) else None for line in text.splitlines()]


def _unquoted(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
