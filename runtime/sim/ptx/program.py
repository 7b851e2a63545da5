"""A module and an entry, decoded: handlers, addresses of variables, and facts about the flow (flow.py).

Decoding happens once per (text, entry). Variables get fixed addresses: shared variables from SHARED_BASE up
(dynamic ones, `.extern .shared`, behind the static ones), module variables at the start of the global arena, locals
in a frame per thread.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from itertools import accumulate

from ..core import errors
from ..core.errors import SimulationError
from ..core.scalars import SIZES
from .flow import Watch, load_registers, product_registers, reads_and_writes, spin_loops, straight_ends, unwritten
from .forms import MAX_DEPTH, MAX_GLOBAL, MAX_LOCAL, MAX_PARAMS, QUIET
from .forms import check as check_form
from .parser import parse_module
from .syntax import Function, Instruction, Module, Operand, Register, Symbol, Variable
from .table import ControlHandler, Decoded, Entry, Handler, Kind, Members, lookup

SHARED_BASE = 1024  # the first shared address: null stays invalid, and swizzled tiles stay aligned
GLOBAL_BASE = 0x7F0000000000
SHARED_WINDOW = 1 << 40  # where shared::cta begins among generic addresses
LOCAL_WINDOW = 2 << 40
PARAM_WINDOW = 3 << 40
WINDOW_SIZE = 1 << 32
RANK_SHIFT = 24  # where an address in shared::cluster has the rank of its CTA

SharedName = tuple[int, int, str, int]  # first address, end, the variable, how many equal versions it consists of


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
    shared_names: list[SharedName]
    call_results: dict[int, list[int]]
    spins: set[tuple[int, int]] = field(default_factory=set)
    fragile: frozenset[int] = frozenset()  # slots of registers that may be read unwritten (flow.py)
    watch: Watch = field(default_factory=dict)  # where these are read and written
    loud: list[int] = field(default_factory=list)  # how many instructions before each one do more than set registers
    products: Watch = field(default_factory=dict)  # where registers that wgmma uses are read and written
    loads: Watch = field(default_factory=dict)  # where registers that tcgen05.ld writes are

    @property
    def register_bytes(self) -> int:
        """Of the registers of one thread."""
        return sum(SIZES[each.kind] for each in self.registers)


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
    _place_variables(program, functions, text)
    for each in functions:
        linker.bases[each.name] = program.start = len(program.code)
        linker.function = each
        for ins in each.body:
            linker.index = len(program.code)
            program.code.append(_decode(ins, linker))
        end = Instruction("ret", (), (), None, False, len(module.lines), "}", None, each.scope)
        linker.index = len(program.code)
        program.code.append(_decode(end, linker))
    program.whole_ends = straight_ends(program.code, ragged=False)
    program.ragged_ends = straight_ends(program.code, ragged=True)
    program.spins = spin_loops(program.code)
    program.loud = [0, *accumulate(step.entry.opcode not in QUIET for step in program.code)]
    touched = [reads_and_writes(step.ins, step.entry) for step in program.code]
    program.fragile, program.watch = unwritten(program.code, touched, linker)
    program.products = product_registers(program.code, touched)
    program.loads = load_registers(program.code, touched)
    return program


def _reachable(module: Module, entry: Function) -> list[Function]:
    """The functions an entry can call, callees first, the entry last. Recursion has no static frame: an error."""
    order: list[Function] = []
    active: list[str] = []

    def visit(function: Function) -> None:
        active.append(function.name)
        if len(active) > MAX_DEPTH:
            raise SimulationError(f"more than {MAX_DEPTH} functions call one another: {' '.join(active)}")
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
    check_form(ins, entry.opcode)
    try:
        made = entry.factory(ins, linker)
    except (IndexError, KeyError, ValueError, StopIteration) as problem:
        if not errors.LAST_RESORT:
            raise
        message = f"unsupported form of {ins.name}: {type(problem).__name__} {problem}"
        raise SimulationError(message, ins.line, ins.text) from problem
    decoded = made if isinstance(made, Decoded) else None
    run: Handler = decoded.run if decoded else made  # type: ignore[assignment]
    control: ControlHandler | None = run if entry.kind is Kind.CONTROL else None  # type: ignore[assignment]
    members = decoded.members if decoded else None
    guard = None if ins.guard is None else ins.guard.slot
    target = linker.label(ins.operands[0], ins) if ins.name == "bra" else None
    return Step(ins, entry, run, control, members, guard, ins.negated, target)


# -- variables ----------------------------------------------------------------------------------------------------


def _align(value: int, align: int) -> int:
    return -(-value // align) * align


# What a comment line says of a part of a shared array: `// smem[0:98304] is A_shared, 3 versions`.
_PIECE = re.compile(
    r"^[ \t]*//[ \t]*(\w+)\[(\d{1,9}):(\d{1,9})\] is (\w+)(?:, (\d{1,4}) versions)?[ \t]*$", re.MULTILINE
)


def _place_variables(program: Program, functions: list[Function], text: str) -> None:
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
            program.shared_names.append((offset, offset + variable.size, variable.name, 1))
        elif space == "global":
            program.globals.append((offset, variable))
            sizes["global"] = _align(sizes["global"], 256) + 256  # guard space
    align = max((variable.align for variable in dynamic), default=16)
    program.shared_size = _align(sizes["shared"], max(align, 16)) if dynamic else _align(sizes["shared"], 16)
    for variable in dynamic:
        program.addresses[id(variable)] = program.shared_size
        program.shared_names.append((program.shared_size, 1 << 31, variable.name, 1))
        program.shared_names[:0] = [
            (program.shared_size + int(first), program.shared_size + int(end), name, int(count or 1))
            for symbol, first, end, name, count in _PIECE.findall(text)
            if symbol == variable.name
        ]
    program.shared_size -= SHARED_BASE
    program.local_size = _align(sizes["local"], 16)
    program.global_size = sizes["global"]
    for what, size, most in (
        ("parameters", program.param_size, MAX_PARAMS),
        ("local memory", program.local_size, MAX_LOCAL),
        ("global variables", program.global_size, MAX_GLOBAL),
    ):
        if size > most:
            raise SimulationError(f"{size} bytes of {what}; there may be {most}")
