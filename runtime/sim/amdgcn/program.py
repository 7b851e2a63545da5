"""From a parsed module to the program of one kernel: decoded steps, register counts, initial registers.

The initial state of a wave (LLVM, AMDGPUUsage, "Initial Kernel Execution State"): user scalar registers in a fixed
order as the `.amdhsa_user_sgpr_` directives enable them, workgroup numbers behind them, work-item numbers packed into
v0 ten bits each.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import SimulationError
from ..core.scalars import Array
from .decode import VECTOR, Decoder, Matrix
from .forms import check as check_form
from .forms import is_loud
from .memory import GLOBAL_BASE, GUARD
from .parser import parse_module
from .syntax import EXEC, VCC, Datum, Instruction, Kernel, Module, Reg
from .table import INSTRUCTIONS, Control, Handler

if TYPE_CHECKING:
    from .machine import Machine

CODE_BASE = 0x7F31_0000_0000  # what s_getpc_b64 gives; only differences to symbols matter
LDS_LIMIT = {"gfx950": 163840, "gfx942": 65536}
_USER = (  # in the order in which they are laid out, with their registers
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)


@dataclass(slots=True)
class Step:
    """One decoded instruction. `touched` has the codes of all registers that it reads or writes (see decode.py)."""

    ins: Instruction
    run: Handler | Control
    reads: frozenset[int]
    writes: frozenset[int]
    whole: frozenset[int]
    touched: frozenset[int]
    matrix: Matrix | None = None
    target: int | None = None  # where a branch goes
    loud: bool = False  # whether it does more than set registers


@dataclass(slots=True, eq=False)
class Program:
    """One kernel, ready to run. Accumulation register n is row `accumulators + n` of the vector file."""

    module: Module
    kernel: Kernel
    start: int
    code: list[Step]
    accumulators: int
    vector_rows: int
    symbols: dict[str, int] = field(default_factory=dict)  # offsets of data objects in the arena of global memory
    data: list[Datum] = field(default_factory=list)
    length: int = 0  # instructions

    @property
    def arch(self) -> str:
        """The target, such as "gfx950"."""
        return self.module.arch

    def row_name(self, code: int) -> str:
        """A register's name from its code."""
        if code < VECTOR:
            special = {VCC: "vcc_lo", VCC + 1: "vcc_hi", EXEC: "exec_lo", EXEC + 1: "exec_hi", 124: "m0"}
            return special.get(code, f"s{code}")
        row = code - VECTOR
        return f"v{row}" if row < self.accumulators else f"a{row - self.accumulators}"

    def symbol(self, text: str, decoder: Decoder) -> int:
        """The value of a symbolic operand: `name@rel32@lo+4` and the like, relative to s_getpc_b64's value."""
        name, _, relocation = text.partition("@")
        if name in self.symbols and relocation:
            distance = GLOBAL_BASE + self.symbols[name] - CODE_BASE
            if relocation.startswith("rel32@lo"):
                return distance & 0xFFFFFFFF
            if relocation.startswith("rel32@hi"):
                return distance >> 32 & 0xFFFFFFFF
            if relocation.startswith("abs32@lo"):
                return (GLOBAL_BASE + self.symbols[name]) & 0xFFFFFFFF
            if relocation.startswith("abs32@hi"):
                return (GLOBAL_BASE + self.symbols[name]) >> 32
        raise decoder.error(f"operand {text!r} is not understood")

    def start_waves(self, m: Machine) -> None:
        """Set the registers with which the waves of a batch begin."""
        launch = m.launch
        kernel = self.kernel
        at = 0
        for name, count in _USER:
            if kernel.setting(f"user_sgpr_{name}"):
                if name == "kernarg_segment_ptr":
                    _put64(m, at, GLOBAL_BASE + launch.kernarg)
                at += count
        length = kernel.setting("user_sgpr_kernarg_preload_length")
        first = launch.kernarg + 4 * kernel.setting("user_sgpr_kernarg_preload_offset")
        if length:
            words = launch.globals.arena.data[first : first + 4 * length].view(np.uint32)
            m.s[at : at + length] = words[:, None]
            at += length
        at = max(at, kernel.setting("user_sgpr_count", at))
        gx, gy, _ = launch.grid
        number = m.first + m.group
        for axis, value in (("x", number % gx), ("y", number // gx % gy), ("z", number // (gx * gy))):
            if kernel.setting(f"system_sgpr_workgroup_id_{axis}", int(axis == "x")):
                m.s[at] = value
                at += 1
        item = np.arange(m.per_group * 64).reshape(m.per_group, 64)
        bx, by, _ = launch.block
        used = kernel.setting("system_vgpr_workitem_id")
        packed = item % bx
        if used >= 1:
            packed = packed | item // bx % by << 10
        if used >= 2:
            packed = packed | item // (bx * by) << 20
        m.v[0] = np.tile(packed, (m.groups, 1)).astype(np.uint32)
        m.written[0] = True
        m.active[:] = np.tile(item < launch.threads, (m.groups, 1))
        from .machine import pack

        m.s[EXEC : EXEC + 2] = pack(m.active).T


def _put64(m: Machine, row: int, value: int) -> None:
    m.s[row] = value & 0xFFFFFFFF
    m.s[row + 1] = value >> 32


@functools.lru_cache(maxsize=16)
def load_program(text: str, entry: str) -> Program:
    """Parse a text and decode kernel `entry`. SimulationError names what is missing or unknown."""
    module = parse_module(text)
    if entry not in module.kernels or entry not in module.labels:
        names = ", ".join(sorted(module.kernels)) or "none"
        raise SimulationError(f"the text has no kernel {entry!r}; it has: {names}", isa="GCN")
    if module.arch not in LDS_LIMIT:
        raise SimulationError(f"the simulator knows {' and '.join(LDS_LIMIT)}, not {module.arch!r}", isa="GCN")
    kernel = module.kernels[entry]
    for mode in ("float_denorm_mode_32", "float_denorm_mode_16_64"):
        if kernel.setting(mode, 3) != 3:
            raise SimulationError(f"the simulator keeps subnormal numbers: .amdhsa_{mode} must be 3", isa="GCN")
    for mode in ("float_round_mode_32", "float_round_mode_16_64"):
        if kernel.setting(mode):
            raise SimulationError(f"the simulator rounds to nearest even: .amdhsa_{mode} must be 0", isa="GCN")
    start = module.labels[entry]
    ends = [at for name, at in module.labels.items() if at > start and (name in module.kernels or ".Lfunc_end" in name)]
    end = min(ends, default=len(module.code))
    vectors, accumulators = _count(module.code[start:end])
    program = Program(module, kernel, 0, [], vectors, vectors + accumulators, length=end - start)
    program.data = [datum for datum in module.data.values() if datum.data]
    place = GUARD
    for datum in program.data:
        program.symbols[datum.name] = place
        place += -(-len(datum.data) // 256) * 256
    labels = {name: at - start for name, at in module.labels.items() if start <= at <= end}
    for index, ins in enumerate(module.code[start:end]):
        factory = INSTRUCTIONS.get(ins.name)
        decoder = Decoder(program, ins, index)
        decoder.labels = labels
        if factory is None:
            full = ins.name + (f"_{ins.encoding}" if ins.encoding else "")
            raise decoder.error(f"the simulator does not know the instruction {full}")
        check_form(ins)
        run = factory(ins, decoder)
        reads, writes = frozenset(decoder.reads), frozenset(decoder.writes)
        program.code.append(Step(ins, run, reads, writes, frozenset(decoder.whole), reads | writes))
        program.code[-1].matrix, program.code[-1].target = decoder.matrix, decoder.target
        program.code[-1].loud = is_loud(ins)
    if not program.code or program.code[-1].ins.name not in ("s_endpgm", "s_branch", "s_trap"):
        raise SimulationError(f"kernel {entry} runs past its end: there is no s_endpgm", isa="GCN")
    return program


def _count(code: list[Instruction]) -> tuple[int, int]:
    """Vector and accumulation registers that the code names."""
    most = {"v": 1, "a": 0}
    for ins in code:
        for operand in ins.operands:
            if isinstance(operand, Reg) and operand.file in most:
                most[operand.file] = max(most[operand.file], operand.first + operand.count)
    return most["v"], most["a"]


__all__ = ["Array", "Program", "Step", "load_program"]
