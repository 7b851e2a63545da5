"""`run_ptx`: check the arguments, lay out memory, run the grid batch by batch, copy results back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.arguments import Dim, Within, array_of, check_contiguous, check_schedule, sizes_of, write_back
from ..core.errors import SimulationError
from ..core.memory import Fault, ParamSpace, build_global
from ..core.report import Report
from ..core.scalars import DTYPES, Array
from .forms import MAX_CTAS, MAX_REGISTER_BYTES

# The modules of instructions register what they execute.
from .instructions import (
    alu_float,
    alu_integer,
    async_copy,
    async_store,
    atomics,
    barriers,
    bulk_instructions,
    cluster,
    collectives,
    control,
    convert,
    launch_control,
    load_store,
    mbarrier,
    proxy_fences,
    tensor_core,
    tensor_map_instructions,
    wgmma_instructions,
)
from .machine import Launch, Machine
from .program import GLOBAL_BASE, Program, load_program
from .race.model import RaceModel
from .scheduler import Scheduler
from .tcgen05 import instructions as tcgen05_instructions
from .tensor_map import TensorMap

INSTRUCTION_MODULES = (
    alu_float,
    alu_integer,
    async_copy,
    async_store,
    atomics,
    barriers,
    bulk_instructions,
    cluster,
    collectives,
    control,
    convert,
    launch_control,
    load_store,
    mbarrier,
    proxy_fences,
    tcgen05_instructions,
    tensor_core,
    tensor_map_instructions,
    wgmma_instructions,
)
_BATCH_THREADS = 8192
_BATCH_SHARED = 8 << 20
_MAX_SHARED = 232448 + 1024


def run_ptx(
    text: str,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    cluster: Sequence[int] = (1, 1, 1),
    dynamic_shared: int = 0,
    schedule: str = "lazy",
    seed: int = 0,
    check: bool = True,
    only_first: bool = False,
    cooperative: bool = False,
) -> Report:
    """Execute entry `entry` of a PTX text.

    `args` are NumPy arrays (global buffers, C-contiguous, changed in place), pointers `Within` such arrays,
    `TensorMap`s of them, NumPy scalars (by value), or Python numbers where the parameter's type says what they become.
    Arrays that share memory share it in the simulation too. `schedule` says when asynchronous copies land: "eager",
    "lazy" or "random" (seeded by `seed`; the order of warps is random then too). `check` turns the race model on.
    `only_first` ends the run at its first finding. `cooperative`: all CTAs run side by side; they may wait for others.

    Returns a `Report`; a program that faults or deadlocks ends there with its finding. Raises `SimulationError` for
    text that cannot be executed and for arguments that do not fit the parameters.
    """
    check_schedule(schedule)
    program = load_program(text, entry)
    dims = {"grid": sizes_of(grid), "block": sizes_of(block), "cluster": sizes_of(cluster)}
    _check_block(program, dims["block"])
    if math.prod(dims["grid"]) > MAX_CTAS:
        raise SimulationError(f"{math.prod(dims['grid'])} CTAs; the simulator runs {MAX_CTAS}")
    _check_cluster(program, dims["grid"], dims["cluster"])
    roots = [arg.root if isinstance(arg, TensorMap) else array_of(arg) for arg in args]
    arrays = [(index, arg) for index, arg in enumerate(roots) if isinstance(arg, np.ndarray)]
    if len(args) != len(program.params):
        raise SimulationError(f"{entry} takes {len(program.params)} parameters, but {len(args)} arguments were given")
    for index, array in arrays:
        check_contiguous(index, array)
    space, addresses = build_global(program, [(program.params[index].name, array) for index, array in arrays])
    pointers = {index: address for (index, _), address in zip(arrays, addresses, strict=True)}
    params = ParamSpace(_parameters(program, args, pointers))
    shared = program.shared_size + dynamic_shared
    if shared > _MAX_SHARED or dynamic_shared < 0:
        raise SimulationError(f"{shared} bytes of shared memory are more than a CTA can have")
    race = RaceModel(program, len(space.arena.data)) if check else None
    launch = Launch(
        program,
        dims["grid"],
        dims["block"],
        dims["cluster"],
        shared,
        dynamic_shared,
        space,
        params,
        schedule,
        check,
        np.random.default_rng(seed),
        race,
        only_first=only_first,
        order=_cluster_order(dims["grid"], dims["cluster"]),
    )
    with np.errstate(all="ignore"):
        _run_grid(launch, cooperative)
    data, starts = space.arena.data, [address - GLOBAL_BASE for address in addresses]
    write_back([(a, data[at : at + a.nbytes]) for (_, a), at in zip(arrays, starts, strict=True)], entry)
    launch.report.stdout = "".join(text for _, text in sorted(launch.printed, key=lambda each: each[0]))
    return launch.report


def _run_grid(launch: Launch, together: bool) -> None:
    """All CTAs, as many side by side as is reasonable, or all of them `together`."""
    total = launch.grid[0] * launch.grid[1] * launch.grid[2]
    each = (launch.program.register_bytes + launch.program.local_size) * launch.padded  # bytes of a CTA
    if each * launch.cluster_size > MAX_REGISTER_BYTES:
        raise SimulationError(
            f"registers and local memory of a CTA take {each} bytes; there may be {MAX_REGISTER_BYTES}"
        )
    ctas = min(_BATCH_THREADS // launch.padded, _BATCH_SHARED // max(launch.shared_size, 1))
    ctas = max(1, min(ctas, MAX_REGISTER_BYTES // max(each, 1)))
    ctas = max(ctas // launch.cluster_size, 1) * launch.cluster_size
    if together and ctas < total:
        if each * total > MAX_REGISTER_BYTES or launch.shared_size * total > MAX_REGISTER_BYTES:
            raise SimulationError(f"{total} CTAs at the same time take more memory than the simulator has")
        ctas = total
    report = launch.report
    if not together and any(step.ins.name == "clusterlaunchcontrol" for step in launch.program.code):
        ctas = min(ctas, _resident(launch, total))
    while launch.started < total:
        first, number = launch.started, min(ctas, total - launch.started)
        launch.started += number
        machine = Machine(launch, first, number)
        scheduler = Scheduler(machine)
        try:
            scheduler.run()
        except Fault:
            report.stopped = True
        for name, times in scheduler.opcode_counts().items():
            report.instructions[name] = report.instructions.get(name, 0) + times
        if report.stopped:
            return


def _resident(launch: Launch, total: int) -> int:
    """The CTAs that run side by side where they take over others' work (launch_control.py): one cluster, about a
    quarter of the grid, or any part of it."""
    clusters = total // launch.cluster_size
    few = {"eager": 1, "lazy": -(-clusters // 4)}.get(launch.schedule) or int(launch.rng.integers(1, clusters + 1))
    return few * launch.cluster_size


def _check_block(program: Program, block: Dim) -> None:
    threads = block[0] * block[1] * block[2]
    limits = program.function.limits
    required = limits.get("reqntid")
    if required and sizes_of(required) != block:
        raise SimulationError(f"the entry requires a block of {sizes_of(required)} (.reqntid), not {block}")
    most = int(np.prod(limits.get("maxntid", (1024,))))
    if threads > min(most, 1024):
        raise SimulationError(f"a block of {threads} threads is more than the {min(most, 1024)} allowed")


def _check_cluster(program: Program, grid: Dim, cluster: Dim) -> None:
    required = program.function.limits.get("reqnctapercluster")
    if required and sizes_of(required) != cluster:
        raise SimulationError(f"the entry requires clusters of {sizes_of(required)}, not {cluster}")
    if cluster[0] * cluster[1] * cluster[2] > 16 or any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise SimulationError(f"clusters of {cluster} do not divide the grid {grid}, or have more than 16 CTAs")


def _cluster_order(grid: Dim, cluster: Dim) -> Array | None:
    """The grid's numbers of all CTAs, cluster by cluster; None if a cluster is one CTA."""
    if cluster == (1, 1, 1):
        return None
    shape = [part for g, c in zip(reversed(grid), reversed(cluster), strict=True) for part in (g // c, c)]
    numbers: Array = np.arange(grid[0] * grid[1] * grid[2]).reshape(shape)
    return numbers.transpose(0, 2, 4, 1, 3, 5).ravel()


def _parameters(program: Program, args: Sequence[Any], pointers: dict[int, int]) -> bytes:
    """The bytes of the parameter space."""
    data = bytearray(program.param_size)
    for index, (param, offset) in enumerate(zip(program.params, program.param_offsets, strict=True)):
        arg = args[index]
        if isinstance(arg, TensorMap):
            raw = arg.pack(pointers[index])
        elif index in pointers:
            offset_in = arg.offset if isinstance(arg, Within) else 0
            raw = (pointers[index] + offset_in).to_bytes(8, "little")
        elif isinstance(arg, np.generic):
            raw = arg.tobytes()
        elif isinstance(arg, bool | int | float):
            raw = _python_number(arg, DTYPES.get(param.elem), param.name)
        elif isinstance(arg, bytes):
            raw = arg
        else:
            raise SimulationError(f"argument {index} is a {type(arg).__name__}; give NumPy arrays and scalars")
        if len(raw) != param.size:
            raise SimulationError(f"argument {index} has {len(raw)} bytes, but parameter {param.name} has {param.size}")
        data[offset : offset + len(raw)] = raw
    return bytes(data)


def _python_number(value: float, dtype: np.dtype[Any] | None, name: str) -> bytes:
    if dtype is None:
        raise SimulationError(f"parameter {name} has no simple type; give a NumPy scalar")
    converted: Array = np.asarray(value).astype(dtype)
    return converted.tobytes()
