"""A module and an entry, decoded: handlers, block ends, variable addresses, and a few static facts.

Decoding happens once per (text, entry). Variables get fixed addresses: shared variables from SHARED_BASE up
(dynamic ones, `.extern .shared`, behind the static ones), module variables at the start of the global arena, locals
in a frame per thread. `fragile` lists the registers that some path may read before it wrote them, found by a
forward dataflow over "definitely written" sets, so that only those need checking while running.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from .errors import SimulationError
from .parser import parse_module
from .scalars import SIZES
from .syntax import (
    Address,
    Function,
    Instruction,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Symbol,
    Tuple,
    Variable,
    Vector,
)
from .table import ControlHandler, Decoded, Entry, Handler, Kind, Members, lookup

SHARED_BASE = 1024  # the first shared address: null stays invalid, and swizzled tiles stay aligned
GLOBAL_BASE = 0x7F0000000000
SHARED_WINDOW = 1 << 40  # where shared::cta begins among generic addresses
LOCAL_WINDOW = 2 << 40
WINDOW_SIZE = 1 << 32


@dataclass(slots=True)
class Step:
    """One decoded instruction."""

    ins: Instruction
    entry: Entry
    run: Handler
    control: ControlHandler | None
    members: Members | None
    guard: int | None
    negated: bool
    target: int | None = None  # of a branch

    @property
    def kind(self) -> Kind:
        """How the scheduler treats it."""
        return self.entry.kind


@dataclass(slots=True)
class Program:
    """Everything about an entry that does not depend on a launch."""

    module: Module
    function: Function
    registers: list[Register]
    start: int  # the entry's first instruction
    code: list[Step]
    whole_ends: list[int]  # per instruction: the next one the scheduler must look at, for groups of whole warps
    ragged_ends: list[int]  # the same for groups that contain parts of warps
    params: list[Variable]
    param_offsets: list[int]
    param_size: int
    shared_size: int
    local_size: int
    globals: list[tuple[int, Variable]]
    global_size: int
    addresses: dict[int, int]
    shared_names: list[tuple[int, int, str]]
    call_results: dict[int, list[int]]
    fragile: frozenset[int] = frozenset()


@dataclass(slots=True)
class Linker:
    """What decoding an instruction may need to know: addresses of variables, positions of labels."""

    module: Module
    entry: Function
    function: Function  # the one that is being decoded
    addresses: dict[int, int] = field(default_factory=dict)
    call_results: dict[int, list[int]] = field(default_factory=dict)  # per call: where the results go
    bases: dict[str, int] = field(default_factory=dict)  # where each function's code starts
    index: int = 0

    def site(self, ins: Instruction) -> int:
        """The index of the instruction that is being decoded: what accesses are remembered by."""
        return self.index

    def variable(self, symbol: Symbol, ins: Instruction) -> Variable:
        """The variable that a symbol names."""
        found = ins.scope.find(symbol.name)
        if not isinstance(found, Variable):
            raise SimulationError(f"{symbol.name} is not declared", ins.line, ins.text)
        return found

    def address(self, symbol: Symbol, ins: Instruction) -> int:
        """The address, in its own space, of the variable that a symbol names."""
        return self.addresses[id(self.variable(symbol, ins))] + symbol.offset

    def label(self, operand: Operand, ins: Instruction) -> int:
        """The index of the instruction behind a label."""
        found = ins.scope.find(operand.name) if isinstance(operand, Symbol) else None
        if not isinstance(found, int):
            raise SimulationError("there is no such label", ins.line, ins.text)
        return found + self.bases[self.function.name]


@functools.lru_cache(maxsize=64)
def load_program(text: str, entry: str) -> Program:
    """Parse and decode. Raises `SimulationError` with the line of whatever cannot be executed."""
    module = parse_module(text)
    function = module.functions.get(entry)
    if function is None or not function.entry:
        names = ", ".join(name for name, each in module.functions.items() if each.entry) or "none"
        raise SimulationError(f"there is no entry {entry!r} in this text (it has: {names})")
    linker = Linker(module, function, function)
    # Called functions stand before their callers, so that the smallest program counter is the innermost one.
    functions = _reachable(module, function)
    registers = [register for each in functions for register in each.registers]
    program = Program(
        module,
        function,
        registers,
        0,
        [],
        [],
        [],
        function.params,
        [],
        0,
        0,
        0,
        [],
        0,
        linker.addresses,
        [],
        linker.call_results,
    )
    _place_variables(program, functions)
    for each in functions:
        linker.bases[each.name] = program.start = len(program.code)
        linker.function = each
        for ins in each.body:
            linker.index = len(program.code)
            program.code.append(_decode(ins, linker))
        end = Instruction("ret", (), (), None, False, len(module.lines), "}", None, each.scope)
        linker.index = len(program.code)
        program.code.append(_decode(end, linker))
    program.whole_ends = _ends(program.code, ragged=False)
    program.ragged_ends = _ends(program.code, ragged=True)
    program.fragile = _maybe_unwritten(program.code, linker)
    return program


def _reachable(module: Module, entry: Function) -> list[Function]:
    """The functions an entry can call, callees first, the entry last. Recursion has no static frame: an error."""
    order: list[Function] = []
    active: list[str] = []

    def visit(function: Function) -> None:
        active.append(function.name)
        for ins in function.body:
            for operand in ins.operands if ins.name == "call" else ():
                callee = module.functions.get(operand.name) if isinstance(operand, Symbol) else None
                if callee is None or callee in order or not callee.body:
                    continue
                if callee.name in active:
                    raise SimulationError(f"{callee.name} calls itself: recursion is not supported", ins.line, ins.text)
                visit(callee)
        active.pop()
        order.append(function)

    visit(entry)
    return order


def _decode(ins: Instruction, linker: Linker) -> Step:
    entry = lookup(ins)
    if entry is None:
        raise SimulationError(f"unsupported instruction {ins.opcode}", ins.line, ins.text)
    try:
        made = entry.factory(ins, linker)
    except (IndexError, KeyError, ValueError, StopIteration) as problem:
        message = f"unsupported form of {ins.name}: {type(problem).__name__} {problem}"
        raise SimulationError(message, ins.line, ins.text) from problem
    decoded = made if isinstance(made, Decoded) else None
    run: Handler = decoded.run if decoded else made  # type: ignore[assignment]
    control: ControlHandler | None = run if entry.kind is Kind.CONTROL else None  # type: ignore[assignment]
    members = decoded.members if decoded else None
    guard = None if ins.guard is None else ins.guard.slot
    target = linker.label(ins.operands[0], ins) if ins.name == "bra" else None
    return Step(ins, entry, run, control, members, guard, ins.negated, target)


def _ends(code: list[Step], ragged: bool) -> list[int]:
    """Per index, the first index at or behind it where a group must leave the straight line."""
    ends = [len(code)] * (len(code) + 1)
    for index in range(len(code) - 1, -1, -1):
        step = code[index]
        stop = step.kind is Kind.CONTROL or (step.kind is Kind.WARP and (ragged or step.guard is not None))
        ends[index] = index if stop else ends[index + 1]
    return ends


# -- variables ----------------------------------------------------------------------------------------------------


def _align(value: int, align: int) -> int:
    return -(-value // align) * align


def _place_variables(program: Program, functions: list[Function]) -> None:
    module, function = program.module, program.function
    sizes = {"shared": SHARED_BASE, "local": 0, "param": 0, "global": 256}
    for param in function.params:
        sizes["param"] = _align(sizes["param"], param.align)
        program.addresses[id(param)] = sizes["param"]
        program.param_offsets.append(sizes["param"])
        sizes["param"] += param.size
    program.param_size = sizes["param"]
    dynamic = []
    inner = [each for called in functions[:-1] for each in (*called.params, *called.results)]
    local = [each for called in functions for each in called.variables]
    for variable in (*module.variables, *inner, *local):
        if variable.space == "shared" and variable.extern:
            dynamic.append(variable)
            continue
        space = {"const": "global", "param": "local"}.get(variable.space, variable.space)
        offset = _align(sizes[space], variable.align)
        sizes[space] = offset + variable.size
        program.addresses[id(variable)] = offset + (GLOBAL_BASE if space == "global" else 0)
        if space == "shared":
            program.shared_names.append((offset, offset + variable.size, variable.name))
        elif space == "global":
            program.globals.append((offset, variable))
            sizes["global"] = _align(sizes["global"], 256) + 256  # guard space
    align = max((variable.align for variable in dynamic), default=16)
    program.shared_size = _align(sizes["shared"], max(align, 16)) if dynamic else _align(sizes["shared"], 16)
    for variable in dynamic:
        program.addresses[id(variable)] = program.shared_size
        program.shared_names.append((program.shared_size, 1 << 31, variable.name))
    program.shared_size -= SHARED_BASE
    program.local_size = _align(sizes["local"], 16)
    program.global_size = sizes["global"]


# -- registers that may be read before they are written -------------------------------------------------------------


def registers_in(operand: Operand) -> list[Register]:
    """The registers an operand names."""
    if isinstance(operand, Register):
        return [operand]
    if isinstance(operand, Not):
        return [operand.operand]
    if isinstance(operand, Vector | Tuple):
        return [register for item in operand.items for register in registers_in(item)]
    if isinstance(operand, Pair):
        return registers_in(operand.first) + registers_in(operand.second)
    if isinstance(operand, Address):
        base = [operand.base] if isinstance(operand.base, Register) else []
        return base + [register for item in operand.rest for register in registers_in(item)]
    return []


def reads_and_writes(ins: Instruction, entry: Entry) -> tuple[list[Register], list[Register]]:
    """The registers an instruction reads (with its guard) and writes."""
    results = entry.results
    written = [register for operand in ins.operands[:results] for register in registers_in(operand)]
    if results and isinstance(ins.operands[0], Address):
        written = []
    sources = ins.operands[results:] if written or not results else ins.operands
    read = [register for operand in sources for register in registers_in(operand)]
    return read + ([ins.guard] if ins.guard else []), written


def _maybe_unwritten(code: list[Step], linker: Linker) -> frozenset[int]:
    """The slots of registers that some path reads without having written them for certain."""
    reads, writes = [], []
    for step in code:
        read, written = reads_and_writes(step.ins, step.entry)
        reads.append(sum({1 << register.slot for register in read}))
        writes.append(0 if step.guard is not None else sum({1 << register.slot for register in written}))
    everything = (1 << linker.module.slots) - 1
    before = [everything] * (len(code) + 1)
    for name, base in linker.bases.items():
        linker.function = linker.module.functions[name]
        before[base] = 0
        pending = [base]
        while pending:
            index = pending.pop()
            known = before[index]
            while True:
                known |= writes[index]
                follow = _successors(code[index], index, linker)
                for other in follow[1:]:
                    if before[other] & known != before[other]:
                        before[other] &= known
                        pending.append(other)
                if not follow:
                    break
                index = follow[0]
                if before[index] & known == before[index]:
                    break
                before[index] &= known
                known = before[index]
    fragile = 0
    for index in range(len(code)):
        fragile |= reads[index] & ~before[index]
    return frozenset(slot for slot in range(fragile.bit_length()) if fragile >> slot & 1)


def _successors(step: Step, index: int, linker: Linker) -> list[int]:
    ins = step.ins
    following = [index + 1] if step.guard is not None else []
    if step.target is not None:
        return [*following, step.target]
    if ins.name == "brx":
        name = ins.operands[1]
        labels = linker.function.targets[name.name] if isinstance(name, Symbol) else ()
        return [*following, *(linker.label(label, ins) for label in labels)]
    if ins.name in ("exit", "ret", "trap"):
        return following
    return [index + 1]


def parameter_size(variable: Variable) -> int:
    """Bytes of one parameter."""
    return variable.size or SIZES[variable.elem]
