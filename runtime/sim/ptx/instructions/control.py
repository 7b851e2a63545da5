"""Branches, exits, calls (PTX ISA 8.0, 9.7.11) and the debugging stops.

Functions of the module can be called, but not recursively: registers, arguments and results of each have one place per
thread. `vprintf(format, arguments)` is built in; its arguments lie in local memory, each aligned to its size, as the
CUDA ABI lays them out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from ...core.memory import split_generic
from ...core.report import Finding
from ...core.scalars import Array, Sel
from ..forms import MAX_PRINTED
from ..operands import error, per_thread, read
from ..program import Linker
from ..syntax import Instruction, Symbol, Tuple
from ..table import ControlHandler, Handler, Kind, Outcome, instruction

if TYPE_CHECKING:
    from ..machine import Machine


@instruction("bra", kind=Kind.CONTROL, results=0)
def _branch(ins: Instruction, linker: Linker) -> ControlHandler:
    target = linker.label(ins.operands[0], ins)
    return lambda m, sel, pc: [(target, sel)]


@instruction("brx", kind=Kind.CONTROL, results=0)
def _branch_indexed(ins: Instruction, linker: Linker) -> ControlHandler:
    index = read(ins.operands[0], "u32", ins, linker)
    name = ins.operands[1]
    if not isinstance(name, Symbol) or name.name not in linker.function.targets:
        raise error(ins, "brx.idx needs a list of branch targets")
    targets = [linker.label(symbol, ins) for symbol in linker.function.targets[name.name]]

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        chosen = np.minimum(per_thread(index(m, sel), sel), len(targets) - 1)
        return [(targets[int(each)], m.thread[sel][chosen == each]) for each in np.unique(chosen)]

    return run


@instruction("exit", kind=Kind.CONTROL, results=0)
def _exit(ins: Instruction, linker: Linker) -> ControlHandler:
    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        m.barriers.exit_threads(m, sel)
        return []

    return run


@instruction("ret", kind=Kind.CONTROL, results=0)
def _return(ins: Instruction, linker: Linker) -> ControlHandler:
    if linker.function is linker.entry:
        return _exit(ins, linker)
    name = linker.function.name
    results = [(linker.addresses[id(result)], result.size) for result in linker.function.results]

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        calls = m.returns[name][sel]
        outcome: Outcome = []
        for call in np.unique(calls):
            threads = sel if (calls == call).all() else m.thread[sel][calls == call]
            _copy_locals(m, threads, results, m.program.call_results[int(call)])
            outcome.append((int(call) + 1, threads))
        return outcome

    return run


def _copy_locals(m: Machine, sel: Sel, sources: list[tuple[int, int]], targets: list[int]) -> None:
    """Copy variables within each thread's frame: (address, size) to address."""
    local = m.spaces["local"]
    frames = local.arena.view(1, local.size)
    threads = m.thread[sel]
    for (source, size), target in zip(sources, targets, strict=True):
        frames[threads, target : target + size] = frames[threads, source : source + size]


@instruction("trap", "brkpt", kind=Kind.CONTROL, results=0)
def _trap(ins: Instruction, linker: Linker) -> ControlHandler:
    site = linker.site(ins)

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        if ins.name == "brkpt":
            return [(pc + 1, sel)]
        access = m.access("trap", site, int(m.thread[sel][0]))
        m.find(Finding("trap", "the program executed trap", access), stop=True)
        return []

    return run


@instruction("nanosleep", "pmevent", results=0)
def _no_effect(ins: Instruction, linker: Linker) -> Handler:
    return lambda m, sel: None


_DIRECTIVE = re.compile(r"%([-+ #0]*)(\d+|\*)?(?:\.(\d+))?(hh|h|ll|l|z)?([diouxXeEfFgGaAcsp%])")


@instruction("call", kind=Kind.CONTROL, results=0)
def _call(ins: Instruction, linker: Linker) -> ControlHandler:
    """call (results), function, (arguments): all are variables in the caller's frame (PTX ISA 8.0, 9.7.11.5)."""
    lists = [each.items for each in ins.operands if isinstance(each, Tuple)]
    names = [each for each in ins.operands if isinstance(each, Symbol)]
    if not names:
        raise error(ins, "calls through a register are not supported")
    first = isinstance(ins.operands[0], Tuple)
    results, arguments = (lists[0], lists[1:]) if first else ((), lists)
    to, sources = (
        [linker.address(each, ins) for each in group if isinstance(each, Symbol)]
        for group in (results, arguments[0] if arguments else ())
    )
    callee = linker.module.functions.get(names[0].name)
    if callee is None or not callee.body:
        if names[0].name != "vprintf":
            raise error(ins, f"{names[0].name} has no body here, and only vprintf is built in")
        return _printing(linker.site(ins), sources, to[0])
    if len(to) != len(callee.results) or len(sources) != len(callee.params):
        raise error(ins, f"{callee.name} takes {len(callee.params)} arguments and gives {len(callee.results)} results")
    start, name = linker.bases[callee.name], callee.name
    linker.call_results[linker.site(ins)] = to
    places = [linker.addresses[id(param)] for param in callee.params]
    copies = [(source, param.size) for source, param in zip(sources, callee.params, strict=True)]

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        if name not in m.returns:
            m.returns[name] = np.zeros(m.slots, np.int64)
        m.returns[name][sel] = pc
        _copy_locals(m, sel, copies, places)
        return [(start, sel)]

    return run


def _printing(site: int, arguments: list[int], result: int) -> ControlHandler:
    """vprintf(format, arguments)."""

    def run(m: Machine, sel: Sel, pc: int) -> Outcome:
        local, threads = m.spaces["local"], m.thread[sel]
        places = [np.full(len(threads), at, np.int64) for at in arguments]
        pointers = [local.load(m, sel, place, 8, 1, site, False)[:, 0] for place in places]
        for position, thread in enumerate(threads):
            text = _string(m, int(pointers[0][position]))
            m.print(int(thread), _format(m, text, int(pointers[1][position]), int(thread), site))
        zero = np.zeros((len(threads), 1), np.uint32)
        local.store(m, sel, np.full(len(threads), result, np.int64), zero, site, False)
        return [(pc + 1, sel)]

    return run


def _string(m: Machine, pointer: int) -> str:
    """The zero-terminated bytes at a generic address in global memory."""
    space = m.spaces["global"]
    where = space.locate(m, slice(0, 1), np.array([pointer], np.int64), 1, 0, "read")
    data = space.arena.data[int(where[0]) :]
    end = int(np.argmax(data == 0))
    return bytes(data[:end]).decode("utf-8", "replace")


def _format(m: Machine, text: str, pointer: int, thread: int, site: int) -> str:
    """printf's formatting with the argument buffer at a generic address."""
    at = pointer

    def fetch(size: int) -> Array:
        nonlocal at
        at = -(-at // size) * size
        sel = m.thread[thread : thread + 1]
        space, threads, local, _ = split_generic(m, sel, np.array([at], np.int64))[0]
        at += size
        return space.load(m, threads, local, size, 1, site, False)[:, 0].copy()

    def expand(match: re.Match[str]) -> str:
        flags, width, precision, length, what = match.groups()
        if what == "%":
            return "%"
        if precision and len(precision) > 4:
            precision = str(MAX_PRINTED)
        if width == "*":
            width = str(int(fetch(4).view(np.int32)[0]))
        if width and abs(int(width[:9])) > MAX_PRINTED:
            width = str(MAX_PRINTED)
        spec = "%" + flags + (width or "") + (f".{precision}" if precision else "")
        if what in "eEfFgG":
            return (spec + what) % float(fetch(8).view(np.float64)[0])
        if what == "s":
            return (spec + "s") % _string(m, int(fetch(8)[0]))
        if what == "p":
            return f"0x{int(fetch(8)[0]):x}"
        wide = length in ("l", "ll", "z")
        bits = fetch(8 if wide else 4)
        if what == "c":
            return (spec + "c") % chr(int(bits[0]) & 0xFF)
        signed = what in "di"
        value = int(bits.view(np.int64 if wide else np.int32)[0]) if signed else int(bits[0])
        return (spec + ("d" if what in "diu" else what)) % value

    return _DIRECTIVE.sub(expand, text)
