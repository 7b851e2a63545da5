"""PTX text to a cubin and what ptxas says of it; no GPU and no driver needed.

`assemble` chooses the assembler that the text needs (see `assemblers`) and returns the cubin with the counts of
`ptxas -v`: registers, spills, stack, shared memory. What ptxas rejects becomes an `AssembleError` that names the PTX
line and, through the `.loc` before it, the user's own line. `remarks` judges what it accepts but warns of:

    wgmmas serialised, setmaxnreg ignored (C7504, C7508–C7518)   an AssembleError with ptxas' words and the user's line
    a fence of ptxas' own before a wgmma (C7519), spills         a remark; an AssembleError where `strict`
    either, where only an assembler of relocatable code is there a remark that says so
    relocatable code of one block where two have room            assembled again (more_blocks.py)

A serialised wgmma is an error, since it costs most of the tensor cores' speed and points at a fault in how the PTX is
written; some spilled bytes may not matter, and their user can see them and choose. A fence more costs next to nothing:
ptxas adds one where it finds that registers of two operands hold the same. MINITILE_STRICT=1 makes everything an error,
for tests and benchmarks; MINITILE_STRICT=0 makes everything a remark.

Sources: the PTX ISA 8.3, 11.5 (`.loc`, `.file`); the form of the log was read from nvJitLink 13.0 and 13.5 and ptxas
12.9 and 13.5, that of the driver's JIT is similar and may lack spills.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from typing import Any

from minitile.backends.base import AssemblerWarning
from minitile.backends.nvidia.assemblers import (
    PTXAS_HINT,
    AssembleOptions,
    Assembler,
    AssemblerMissing,
    Rejected,
    assembler_for,
    find_ptxas,
    needs_whole_program,
)
from minitile.backends.nvidia.more_blocks import alone, asking
from minitile.driver.elf import is_whole
from minitile.ir.diagnostics import HostError, Location, MinitileError

__all__ = [
    "AssembleError",
    "AssembleOptions",
    "Assembled",
    "AssemblerMissing",
    "AssemblerWarning",
    "assemble",
    "assembler_for",
    "assembler_identity",
    "assembler_name",
    "by_driver",
    "find_ptxas",
    "needs_whole_program",
    "read_log",
    "remarks",
    "source_of",
    "strictness",
]


class AssembleError(MinitileError):
    """ptxas refused the PTX, or accepted it at a price that must not go unnoticed. `log` is its whole output,
    `ptx_line` the first line it names (1-based; 0: none)."""

    def __init__(self, message: str, log: str, ptx_line: int = 0, loc: Location | None = None, hint: str = "") -> None:
        super().__init__(message, loc, hint)
        self.log = log
        self.ptx_line = ptx_line


DRIVER = "the driver's JIT"


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin and its costs. Registers are per thread; `spill_stores`, `spill_loads` and `stack` are bytes per thread;
    `shared` is static shared memory in bytes. With several entries in one PTX text, each is the largest of them.
    `warnings` are ptxas' own, with the advisory C75xx notes (a wgmma that was serialised, a setmaxnreg ignored).
    `honoured`: it was compiled as a whole program, if the text needs that. What the driver compiled has an empty
    `cubin`."""

    cubin: bytes
    arch: str
    assembler: str
    honoured: bool
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    warnings: tuple[str, ...]
    log: str
    seconds: float


def assembler_name(ptx: str) -> str | None:
    """The assembler that `assemble` would use, with its version; None where there is none."""
    try:
        return assembler_for(ptx).name
    except AssemblerMissing:
        return None


def assembler_identity(ptx: str) -> str | None:
    """As `assembler_name`, to the build."""
    try:
        return assembler_for(ptx).identity
    except AssemblerMissing:
        return None


def assemble(ptx: str, arch: str, options: AssembleOptions | None = None) -> Assembled:
    """Assembles `ptx` for `arch` ("sm_80", "sm_90a", …: the PTX's own target or a later one it is compatible with).

    Raises AssembleError (ptxas refuses the text), TargetError (the assembler does not know `arch`) and
    AssemblerMissing (not installed); HostError where it crashes, takes too long, or writes half a file.
    """
    assembler, options = assembler_for(ptx), options or AssembleOptions()
    started = time.perf_counter()
    try:
        done = _assembled(assembler, ptx, arch, options)
    except Rejected as rejected:
        raise _error(ptx, arch, str(rejected)) from None
    if assembler.relocatable and options.max_registers is None and alone(ptx, done.registers, done.shared):
        two = _assembled(assembler, asking(ptx), arch, options)
        done = two if _spilled(two) <= _spilled(done) else done
    return replace(done, seconds=time.perf_counter() - started)


def _assembled(assembler: Assembler, ptx: str, arch: str, options: AssembleOptions) -> Assembled:
    cubin, log = assembler.run(ptx, arch, options)
    if not is_whole(cubin):
        raise HostError(f"{assembler.name} wrote {len(cubin)} bytes that are no whole cubin", hint="is the disk full?")
    return Assembled(cubin, arch, assembler.name, assembler.honours(ptx), **read_log(log), log=log, seconds=0.0)


def _spilled(done: Assembled) -> int:
    return done.spill_stores + done.spill_loads + done.stack


_USED = re.compile(r"\bused (\d+) registers(?:.*?, (\d+)(?:\+\d+)? bytes smem)?", re.IGNORECASE)
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_WARNING = re.compile(r"^.*(?:\bwarning\b|\(C75\d\d\)).*$", re.MULTILINE)


def read_log(log: str) -> dict[str, Any]:
    """The counts in the output of `ptxas -v`, by their names in `Assembled`."""
    used = [(int(regs), int(shared or 0)) for regs, shared in _USED.findall(log)]
    frames = [tuple(map(int, found)) for found in _FRAME.findall(log)]
    if not used or not frames:
        raise AssembleError("the assembler's log has no register counts", log)
    return {
        "registers": max(regs for regs, _ in used),
        "shared": max(shared for _, shared in used),
        "stack": max(frame[0] for frame in frames),
        "spill_stores": max(frame[1] for frame in frames),
        "spill_loads": max(frame[2] for frame in frames),
        "warnings": _warnings(log),
    }


def by_driver(arch: str, registers: int, local: int, shared: int, log: str) -> Assembled:
    """What the driver's JIT made of a text: its facts of the loaded function, and its log, which may be empty (it keeps
    what it compiled) or lack the spills: then they count as 0 and are part of the stack, `local` bytes per thread."""
    frames = [tuple(map(int, found)) for found in _FRAME.findall(log)] or [(0, 0, 0)]
    _, stores, loads = map(max, zip(*frames, strict=True))
    return Assembled(b"", arch, DRIVER, True, registers, stores, loads, local, shared, _warnings(log), log, 0.0)


def _warnings(log: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in _WARNING.findall(log))


# What it says -------------------------------------------------------------------------------------------------------

_NOTE = re.compile(r"\((C75\d\d)\)\s*(.*)")
_GRAVE = {"C7504", *(f"C75{n:02}" for n in range(8, 19))}  # setmaxnreg ignored; wgmma serialised
_SLIGHT = {"C7519"}  # ptxas added a fence


def strictness() -> int:
    """0: all are remarks; 1: what is grave is an error; 2: all are errors."""
    return {"0": 0, "1": 2}.get(os.environ.get("MINITILE_STRICT", ""), 1)


def remarks(done: Assembled, ptx: str, strict: int | None = None) -> tuple[str, ...]:
    """What the user should know of how their kernel was assembled. Raises AssembleError for what is grave; see this
    module's text. `strict`: see `strictness`, which is the default."""
    strict = strictness() if strict is None else strict
    notes = [found for line in done.warnings if (found := _NOTE.search(line)) and found[1] in _GRAVE | _SLIGHT]
    spilled = done.spill_stores + done.spill_loads
    if not done.honoured:
        lost = [f"({code}) {words}" for code, words in (found.groups() for found in notes) if code in _GRAVE]
        lost += [f"{spilled} bytes per thread are spilled"] if spilled else []
        advice = f"On a GPU its driver compiles this kernel better, when it is launched; for a cubin, {PTXAS_HINT}"
        return (f"{done.assembler} assembles relocatable code: {'; '.join(lost)}. {advice}",) if lost else ()
    said = []
    for code, words in (found.groups() for found in notes):
        line = _line_of(ptx, words)
        if strict >= (1 if code in _GRAVE else 2):
            raise AssembleError(
                f"{done.assembler} for {done.arch}: ({code}) {words}",
                done.log,
                line,
                source_of(ptx, line) if line else None,
                "MINITILE_STRICT=0 runs it as it is",
            )
        said.append(f"{done.assembler} for {done.arch}: ({code}) {words}")
    if spilled:
        text = (
            f"{done.assembler} for {done.arch}: {done.registers} registers do not do: {done.spill_stores} bytes per "
            f"thread of spill stores, {done.spill_loads} bytes of spill loads"
        )
        if strict >= 2:
            raise AssembleError(text, done.log, 0, _first_source(ptx), "more threads or smaller tiles need fewer")
        said.append(f"{text}; more threads or smaller tiles need fewer registers")
    return tuple(said)


def _line_of(ptx: str, words: str) -> int:
    """The PTX line that a note means: the one it names, else the first wgmma's; 0 where there is none."""
    named = re.search(r"\bline (\d+)", words)
    if named is not None:
        return int(named[1])
    found = re.search(r"^\s*(wgmma|setmaxnreg)\b", ptx, re.MULTILINE)
    return ptx.count("\n", 0, found.start(1)) + 1 if found else 0


def _first_source(ptx: str) -> Location | None:
    """The first of the user's lines."""
    found = re.search(r"^\s*\.loc\b", ptx, re.MULTILINE)
    return source_of(ptx, ptx.count("\n", 0, found.end()) + 1) if found else None


_AT_LINE = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_FATAL = re.compile(r"(?:error|fatal)\s*: (.*)")


def _error(ptx: str, arch: str, log: str) -> AssembleError:
    """The first complaints of ptxas, each under its PTX line."""
    lines = ptx.splitlines()
    complaints = [(int(number), text.strip()) for number, text in _AT_LINE.findall(log)]
    if not complaints:
        fatal = _FATAL.search(log)
        reason = fatal.group(1).strip() if fatal else log.strip() or "no reason given"
        return AssembleError(f"the PTX cannot be assembled for {arch}: {reason}", log)
    shown = []
    for number, text in complaints[:5]:
        source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        shown.append(f"  PTX line {number}: {text}\n    {source}")
    if len(complaints) > 5:
        shown.append(f"  and {len(complaints) - 5} more")
    first = complaints[0][0]
    return AssembleError(
        f"the PTX cannot be assembled for {arch}:\n" + "\n".join(shown), log, first, source_of(ptx, first)
    )


def source_of(ptx: str, line: int) -> Location | None:
    """The user's line that the PTX line `line` (1-based) came from: the last `.loc` at or before it."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.MULTILINE))
    for text in reversed(ptx.splitlines()[:line]):
        found = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", text)
        if found and found.group(1) in files:
            return Location(files[found.group(1)], int(found.group(2)), max(0, int(found.group(3)) - 1))
    return None
