"""`run_gcn`: check the arguments, lay out memory, run the grid batch by batch, copy results back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arguments import (
    Dim,
    Within,
    allocations_of,
    array_of,
    check_contiguous,
    check_schedule,
    sizes_of,
    skew_of,
    write_back,
)
from ..core.errors import SimulationError
from ..core.memory import Fault
from ..core.report import Report
from ..core.scalars import Array
from ..core.sparse import copy_in
from .forms import MAX_GROUPS
from .hazards import find_hazards

# The modules of instructions register what they execute.
from .instructions import (
    atomics,
    compare,
    control,
    convert,
    lanes,
    lds,
    mfma,
    packed,
    scalar_alu,
    vector_float,
    vector_int,
    vector_memory,
)
from .machine import Launch, Machine
from .memory import GLOBAL_BASE, Global
from .program import LDS_LIMIT, Program, Step, load_program
from .race.global_memory import GlobalRaces
from .race.lds import LdsRaces
from .scheduler import Scheduler
from .syntax import Argument

INSTRUCTION_MODULES = (
    atomics,
    compare,
    control,
    convert,
    lanes,
    lds,
    mfma,
    packed,
    scalar_alu,
    vector_float,
    vector_int,
    vector_memory,
)
_BATCH_WAVES = 128
_BATCH_LDS = 4 << 20


def run_gcn(
    text: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    dynamic_shared: int = 0,
    schedule: str = "lazy",
    seed: int = 0,
    check: bool = True,
    only_first: bool = False,
) -> Report:
    """Execute kernel `entry` of an AMD assembly text for gfx942 or gfx950, as LLVM prints it.

    `grid` counts workgroups, `block` work-items of a workgroup (up to three sizes each). `args` are, in the order of
    the metadata without the hidden arguments: NumPy arrays (global buffers, C-contiguous, changed in place; None
    is a null pointer), pointers `Within` such arrays, NumPy scalars (by value), or Python numbers where the argument's
    size says what they become.
    `dynamic_shared` bytes of LDS come on top of the kernel's own. `schedule` says when memory operations complete:
    "lazy" not before they are waited for, "eager" at once, "random" at some time between (seeded by `seed`; the order
    of waves is random then too). `check` turns the race model on; `only_first` ends the run at its
    first finding.

    Returns a `Report`; a program that faults or deadlocks ends there with its finding. Raises `SimulationError` for
    text that cannot be executed and for arguments that do not fit.
    """
    launch, places = prepare(text, entry, grid, block, args, dynamic_shared, schedule, seed, check)
    launch.only_first = only_first
    with np.errstate(all="ignore"):
        _run_grid(launch)
    data, placed = launch.globals.arena.data, zip(places, map(array_of, args), strict=True)
    write_back([(a, data[at : at + a.nbytes]) for at, a in placed if isinstance(a, np.ndarray)], entry)
    return launch.report


def prepare(
    text: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    dynamic_shared: int,
    schedule: str,
    seed: int,
    check: bool,
) -> tuple[Launch, list[int]]:
    """Check everything and lay out memory: the launch, and where each array lies in the arena."""
    check_schedule(schedule)
    program = load_program(text, entry)
    sizes, items = sizes_of(grid), sizes_of(block)
    _check_block(program, items)
    if math.prod(sizes) > MAX_GROUPS:
        raise SimulationError(f"{math.prod(sizes)} workgroups; the simulator runs {MAX_GROUPS}", isa="GCN")
    if dynamic_shared < 0:
        raise SimulationError(f"{dynamic_shared} bytes of LDS on top of the kernel's own", isa="GCN")
    lds_size = program.kernel.setting("group_segment_fixed_size") + dynamic_shared
    if lds_size > LDS_LIMIT[program.arch]:
        raise SimulationError(
            f"{lds_size} bytes of LDS are more than the {LDS_LIMIT[program.arch]} that {program.arch} has", isa="GCN"
        )
    space = Global()
    if program.data:
        space.reserve("the module's constants", sum(-(-len(datum.data) // 256) * 256 for datum in program.data))
    visible = [arg for arg in program.kernel.args if not arg.kind.startswith("hidden")]
    if len(args) != len(visible):
        raise SimulationError(f"{entry} takes {len(visible)} arguments, but {len(args)} were given", isa="GCN")
    kernarg_size = max([program.kernel.setting("kernarg_size"), *(a.offset + a.size for a in program.kernel.args)])
    kernarg = space.reserve("the kernel arguments", -(-kernarg_size // 64) * 64 + 64)
    roots = [array_of(arg) for arg in args]
    places = _place_arrays(space, [(visible[index].name, root) for index, root in enumerate(roots)])
    space.finish()
    for datum in program.data:
        at = program.symbols[datum.name]
        space.arena.data[at : at + len(datum.data)] = np.frombuffer(bytes(datum.data), np.uint8)
    for place, root in zip(places, roots, strict=True):
        if isinstance(root, np.ndarray):
            copy_in(space.arena.data[place : place + root.nbytes], root.reshape(-1).view(np.uint8))
    launch = Launch(
        program, sizes, items, lds_size, space, kernarg, schedule, check, np.random.default_rng(seed), Report()
    )
    for arg, value, place in zip(visible, args, places, strict=True):
        raw = _argument(arg, value, place)
        space.arena.data[kernarg + arg.offset : kernarg + arg.offset + arg.size] = np.frombuffer(raw, np.uint8)
    _hidden(launch)
    return launch, places


def _run_grid(launch: Launch) -> None:
    """All workgroups, as many side by side as is reasonable."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    groups = max(1, min(_BATCH_WAVES // launch.waves, _BATCH_LDS // max(launch.lds_size, 1)))
    report, code = launch.report, launch.program.code
    executed = [0] * len(code)
    races = None
    if launch.check:
        releases = any(step.ins.name == "buffer_wbl2" for step in code)
        races = GlobalRaces(len(launch.globals.arena.data), _cell(code, "global", 16), releases)
    for first in range(0, total, groups):
        machine = Machine(launch, first, min(groups, total - first))
        if launch.check and launch.lds_size:
            machine.race = LdsRaces(machine, _cell(code, "shared", 16))
        if races is not None:
            machine.global_race = races
            races.start_batch(machine)
        scheduler = Scheduler(machine)
        try:
            scheduler.run()
        except Fault:
            report.stopped = True
        for index, times in enumerate(scheduler.counts.tolist()):
            executed[index] += times
        if report.stopped:
            break
    for step, times in zip(code, executed, strict=True):
        if times:
            report.instructions[step.ins.name] = report.instructions.get(step.ins.name, 0) + times
    if launch.check:
        report.findings += find_hazards(launch.program, executed)


_SMALL = {"u8": 1, "i8": 1, "b8": 1, "u16": 2, "i16": 2, "b16": 2, "b64": 8, "b96": 4, "b128": 16}
_DWORDS = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2, "dwordx2": 8, "dwordx4": 16}


def _cell(code: list[Step], space: str, most: int) -> int:
    """The size of the smallest access of the program to LDS ("shared") or to global memory, at most `most`."""
    smallest = most
    for step in code:
        parts = step.ins.name.split("_")
        if parts[0] == "ds":
            if space == "shared" and "permute" not in parts[1] and parts[1] != "swizzle":
                size = 4 if "2" in parts[1] else _SMALL.get(parts[2] if len(parts) > 2 else "", 4)
                smallest = min(smallest, size)
        elif parts[0] in ("buffer", "global", "flat") and len(parts) > 2:
            dma = "lds" in parts or "lds" in step.ins.mods
            if space == "global" or dma:
                sizes = [_DWORDS[part] for part in parts if part in _DWORDS]
                smallest = min([smallest, *(sizes or [4])])
    return smallest


def _place_arrays(space: Global, args: list[tuple[str, Any]]) -> list[int]:
    """Arena offsets of the arrays; 0 for other arguments."""
    arrays = {index: arg for index, (_, arg) in enumerate(args) if isinstance(arg, np.ndarray)}
    for index, array in arrays.items():
        check_contiguous(index, array)
    numbers = list(arrays)
    needed, lying = allocations_of(list(arrays.values()))
    starts = []
    for first, size in needed:
        name, array = args[numbers[first]]
        starts.append(space.reserve(name, size, skew_of(array)))
    places = [0] * len(args)
    for index, (number, offset) in zip(numbers, lying, strict=True):
        places[index] = starts[number] + offset
    return places


def _argument(arg: Argument, value: Any, place: int) -> bytes:
    """The bytes of one argument in the kernarg segment."""
    if value is None or isinstance(value, np.ndarray | Within):
        inside = value.offset if isinstance(value, Within) else 0
        raw = (0 if value is None else GLOBAL_BASE + place + inside).to_bytes(8, "little")
    elif isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, bytes):
        raw = value
    elif isinstance(value, bool | int):
        raw = int(value).to_bytes(arg.size, "little", signed=value < 0)
    elif isinstance(value, float):
        raw = np.asarray(value, np.dtype(f"f{arg.size}")).tobytes()
    else:
        raise SimulationError(f"argument {arg.name} is a {type(value).__name__}; give NumPy arrays and scalars")
    if len(raw) != arg.size:
        raise SimulationError(f"argument {arg.name} has {arg.size} bytes, but {len(raw)} were given", isa="GCN")
    return raw


def _hidden(launch: Launch) -> None:
    """Fill in the hidden arguments (LLVM, AMDGPUUsage, "Kernarg Segment")."""
    values = {"hidden_grid_dims": 3}
    for index, axis in enumerate("xyz"):
        values[f"hidden_block_count_{axis}"] = launch.grid[index]
        values[f"hidden_group_size_{axis}"] = launch.block[index]
    for arg in launch.program.kernel.args:
        if arg.kind.startswith("hidden"):
            raw = values.get(arg.kind, 0).to_bytes(arg.size, "little")
            at = launch.kernarg + arg.offset
            launch.globals.arena.data[at : at + arg.size] = np.frombuffer(raw, np.uint8)


def _check_block(program: Program, block: Dim) -> None:
    threads = block[0] * block[1] * block[2]
    required = program.kernel.required
    if required is not None and required != block:
        raise SimulationError(f"the kernel requires workgroups of {required}, not {block}", isa="GCN")
    if threads > min(program.kernel.max_threads, 1024):
        most = min(program.kernel.max_threads, 1024)
        raise SimulationError(f"a workgroup of {threads} work-items is more than the {most} allowed", isa="GCN")


__all__ = ["Array", "run_gcn"]
