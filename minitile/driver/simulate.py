"""A compiled kernel on NumPy arrays: its assembly in the simulator, findings as errors that show the user's line."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from minitile.backends.registry import backend_of_text
from minitile.ir.diagnostics import LaunchArgumentError, Location, MinitileError
from minitile.ir.types import dtype
from minitile.runtime.arrays import describe, strides_of, writable
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import (
    LaunchInfo,
    Param,
    ScalarArg,
    Slot,
    TensorArg,
    TensorMapParam,
    Values,
    compile_exprs,
    fits,
    mentioned,
    misfit,
    show_expr,
    slots_of,
)
from minitile.runtime.launcher_base import check_clusters
from minitile.runtime.overlap import explain
from minitile.runtime.tensor_map import check_box, check_tensor, one_element

if TYPE_CHECKING:
    from minitile.backends.base import Backend
    from minitile.runtime.sim import Finding, Report


class SimulationError(MinitileError):
    """The simulator found the program at fault, or could not execute it. `findings` is what it reports."""

    findings: Sequence[Any] = ()


class RaceError(SimulationError):
    """Accesses that are not ordered although one of them writes: a missing barrier, wait or fence."""


def simulate(
    info: LaunchInfo,
    text: str,
    args: Sequence[Any],
    schedule: str = "lazy",
    seed: int = 0,
    check: bool = True,
    backend: Backend | None = None,
) -> Report:
    """Runs the kernel, `text` being assembly of `backend` (None: whichever it is), on arrays of the CPU and Python
    scalars, which a binder has checked; writes into the arrays.

    Raises RaceError, SimulationError, and LaunchArgumentError for sizes that the kernel was not compiled for.
    """
    from minitile.runtime.sim import SimulationError as Fault

    report: Report | None = None
    try:
        report = run(info, text, args, schedule, seed, check, backend)
        report.findings = [_said(finding, info) for finding in report.findings]
        print(report.stdout, end="")
        report.raise_if_findings()
    except Fault as fault:
        raise _as_error(fault, report) from None
    return report


def run(
    info: LaunchInfo,
    text: str,
    args: Sequence[Any],
    schedule: str = "lazy",
    seed: int = 0,
    check: bool = True,
    backend: Backend | None = None,
) -> Report:
    """As `simulate`, but what is found is only in the report. Raises the simulator's own errors."""
    from minitile.runtime.sim import Report

    grid, given = launch_of(info, args)
    if 0 in grid:
        return Report()
    backend = backend or backend_of_text(text)
    try:
        backend.check_grid(grid, info.block)
        check_clusters(grid, info.cluster)
    except LaunchError as error:
        from minitile.driver.dispatch import raise_for_caller

        raise_for_caller(error)
    return backend.simulator()(
        text,
        info.entry,
        grid,
        info.block,
        given,
        schedule=schedule,
        seed=seed,
        check=check,
        **backend.launch_options(info),
    )


def launch_of(info: LaunchInfo, args: Sequence[Any]) -> tuple[tuple[int, int, int], list[Any]]:
    """The grid and the entry's arguments as `run_ptx` takes them, for arguments of the kernel that a binder has
    checked; arrays are the caller's own. Raises LaunchArgumentError."""
    args = on_host(info, args)
    _check_writable(info, args)
    values = _slot_values(info, args)
    slots = slots_of(info.args)
    ordered = tuple(values[s] for s in slots)
    _check_facts(info, slots, ordered)
    x, y, z = compile_exprs(info.grid, slots)(ordered)
    if 0 in (x, y, z):
        return (x, y, z), []
    _check_memory(info, slots, ordered)
    given = [
        _tensor_map(p, slots, ordered) if isinstance(p, TensorMapParam) else _parameter(p, slots, ordered)
        for p in info.params
    ]
    return (x, y, z), given


def on_host(info: LaunchInfo, args: Sequence[Any]) -> list[Any]:
    """The arguments with NumPy arrays on the memory of those of other frameworks."""
    return [_host_array(x) if isinstance(arg, TensorArg) else x for arg, x in zip(info.args, args, strict=True)]


def _host_array(array: Any) -> Any:
    """NumPy's view of an array in the host's memory, which keeps it alive; read-only where its framework's arrays do
    not change."""
    if isinstance(array, np.ndarray):
        return array
    found = describe(array)
    element = dtype(found.dtype).numpy
    reach = [s * (n - 1) for s, n in zip(found.strides, found.shape, strict=True)]
    if 0 in found.shape:
        return np.empty(found.shape, element)
    below = -sum(min(0, each) for each in reach) * element.itemsize
    count = (sum(map(abs, reach)) + 1) * element.itemsize
    memory: Any = (ctypes.c_uint8 * count).from_address(found.ptr - below)
    memory.owner = array  # lives as long as the view
    strides = [s * element.itemsize for s in found.strides]
    view: np.ndarray[Any, Any] = np.ndarray(found.shape, element, memory, below, strides)
    view.flags.writeable = writable(array)
    return view


def _check_writable(info: LaunchInfo, args: Sequence[Any]) -> None:
    """Raises LaunchArgumentError, naming the argument, for a read-only array that the kernel writes."""
    for arg, given in zip(info.args, args, strict=True):
        if arg.name in info.written and not given.flags.writeable:
            from minitile.driver.dispatch import caller_location

            raise LaunchArgumentError(
                f"{info.entry} writes {arg.name}, and this array is read-only (flags.writeable)",
                caller_location(),
                f"pass a copy: {arg.name}.copy(); arrays that never change, as JAX's, are results: T.empty, or out_idx",
            )


def _slot_values(info: LaunchInfo, args: Sequence[Any]) -> dict[tuple[str, str], Any]:
    """Each slot's value; a pointer's is the array itself, or where its first element is in its memory (`Within`)."""
    from minitile.runtime.sim import Within

    values: dict[tuple[str, str], Any] = {}
    for arg, given in zip(info.args, args, strict=True):
        if isinstance(arg, ScalarArg):
            values["scalar", arg.name] = given
            continue
        values["pointer", arg.name] = given if arg.strides is None else Within.of(given)
        steps = [] if arg.strides is None else zip(arg.strides, strides_of(given), strict=True)
        sizes = zip(arg.shape, given.shape, strict=True)
        values |= {("dim", d): n for d, n in (*sizes, *steps) if isinstance(d, str)}
    return values


def _check_facts(info: LaunchInfo, slots: Sequence[tuple[str, str]], values: tuple[Any, ...]) -> None:
    facts = info.facts
    for fact, holds in zip(facts, compile_exprs(facts, slots)(_addresses(slots, values)), strict=True):
        if not holds:
            from minitile.driver.dispatch import caller_location

            read = mentioned(fact)
            numbers = zip(slots, _addresses(slots, values), strict=True)
            sizes = ", ".join(
                f"the address of {s[1]} is {v:#x}" if s[0] == "pointer" else f"{s[1]} is {v}"
                for s, v in numbers
                if s in read
            )
            raise LaunchArgumentError(
                f"this kernel was compiled for {show_expr(fact)}, but {sizes}",
                caller_location(),
                "call the kernel function itself: it compiles what a call needs",
            )


def _addresses(slots: Sequence[Slot], values: Values) -> Values:
    """The slots' values with addresses in the caller's memory in place of arrays."""
    from minitile.runtime.sim import Within

    def address(v: Any) -> int:
        return int(v.root.ctypes.data + v.offset if isinstance(v, Within) else v.ctypes.data)

    return tuple(address(v) if kind == "pointer" else v for (kind, _), v in zip(slots, values, strict=True))


def _check_memory(info: LaunchInfo, slots: Sequence[Slot], values: Values) -> None:
    """As on a GPU: arrays that are written overlap no others."""
    from minitile.driver.dispatch import raise_for_caller

    try:
        explain(info, slots, _addresses(slots, values))
    except LaunchError as error:
        raise_for_caller(error)


def _parameter(param: Param, slots: Sequence[Slot], values: Values) -> Any:
    (value,) = compile_exprs([param.source], slots)(values)
    if param.dtype == "pointer":
        return value
    if not fits(param, value):
        from minitile.driver.dispatch import caller_location

        raise LaunchArgumentError(misfit(param, value), caller_location())
    return np.asarray(value).astype(dtype(param.dtype).numpy)[()]


def _tensor_map(param: TensorMapParam, slots: Sequence[Slot], values: Values) -> Any:
    """The simulator's tensor map: a view of the array that has the map's dimensions and strides."""
    from minitile.driver.dispatch import raise_for_caller
    from minitile.runtime.sim import TensorMap, Within

    pointer = values[slots.index(("pointer", param.tensor))]
    array = pointer.root if isinstance(pointer, Within) else pointer
    dims: Sequence[int] = compile_exprs(param.dims, slots)(values)
    strides = [s * array.itemsize for s in compile_exprs(param.strides, slots)(values)]
    try:
        check_box(param)
        if 0 in dims:  # as on a GPU: the map of an element of its own
            dims, strides = one_element(len(dims))
            array = np.zeros(array.itemsize, np.uint8)
        check_tensor(param, 0, dims, strides)
    except LaunchError as error:
        raise_for_caller(error)
    element = dtype(param.dtype).numpy
    memory = array.reshape(-1).view(np.uint8)
    view: Any = np.ndarray(dims, element, memory, 0, (*strides, array.itemsize))
    return TensorMap(view, param.box, swizzle=param.swizzle, oob_fill=param.fill, tf32=param.tf32)


def _said(finding: Finding, info: LaunchInfo) -> Finding:
    """A trap in the words of the T.device_assert that it comes from."""
    if finding.kind != "trap":
        return finding
    texts = [text for source, text in info.asserts if source == finding.first.source]
    return replace(finding, message=f"T.device_assert failed: {' / '.join(texts)}") if texts else finding


def _as_error(fault: Any, report: Report | None) -> SimulationError:
    from minitile.runtime.sim import RaceError as Race

    kind = RaceError if isinstance(fault, Race) else SimulationError
    findings = () if report is None else tuple(report.findings)
    source = findings[0].first.source if findings else None
    error = kind(str(fault), _location(source))
    error.findings = findings
    return error


def _location(source: str | None) -> Location | None:
    """ "file:line" as a location: the whole statement on that line."""
    if source is None:
        return None
    file, _, line = source.rpartition(":")
    return Location.of_line(file, int(line)) if line.isdigit() else None


__all__ = ["RaceError", "SimulationError", "launch_of", "run", "simulate"]
