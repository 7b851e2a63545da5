"""Checking and timing configurations of a kernel: in this process, or as a task for a worker with a GPU.

A `Task` is plain data and functions that pickle; `measure` does it wherever it runs and gives an `Outcome`. All of its
configurations are timed interleaved on one GPU, the fastest so far among them, so times are compared as ratios and
workers may have GPUs of different speed and temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from minitile.backends.registry import backend_of, backend_of_device
from minitile.driver.dispatch import Executable, raise_for_caller
from minitile.driver.simulate import simulate
from minitile.hardware import Target
from minitile.ir.diagnostics import LaunchArgumentError, MinitileError
from minitile.runtime.arrays import Place, read
from minitile.runtime.errors import LaunchError
from minitile.runtime.launch_info import LaunchInfo
from minitile.target import target_at

Measure = Callable[[Mapping[str, Callable[..., None]]], Mapping[str, Sequence[float]]]
Args = Sequence[Any]


class Submits(Protocol):
    """What a tuning asks of an executor."""

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]: ...


@dataclass(frozen=True)
class Code:
    """A compiled configuration. `prebuilt` is what `Program.prebuilt` makes. Pickles."""

    info: LaunchInfo
    assembly: Mapping[str, str]
    prebuilt: Any = None

    def executable(self, target: Target) -> Executable:
        backend = backend_of(target)
        program = backend.program(self.assembly, self.info.entry, target)
        if self.prebuilt is not None:
            program.adopt(self.prebuilt)

        def run_on_cpu(args: tuple[Any, ...]) -> None:
            simulate(self.info, program.text, args, backend=backend)

        return Executable(self.info, program, run_on_cpu)


@dataclass(frozen=True)
class How:
    """See `autotune`; `check` and `reset` are None where nothing is checked."""

    check: Callable[..., Any] | None = None
    reset: Callable[..., Any] | None = None
    measure: Measure | None = None
    rounds: int = 15
    flush_l2: bool = False


@dataclass(frozen=True)
class Task:
    """Configurations to time against each other. arguments: makes the arguments of the launches where they run; or
    these themselves. unchecked: the names of those whose result is looked at first."""

    codes: Mapping[str, Code]
    target: Target
    arguments: Callable[[], Args] | Args
    how: How
    unchecked: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """Samples in milliseconds by configuration, or why there are none; registers and spilled bytes where known."""

    times: dict[str, Sequence[float]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    costs: dict[str, tuple[int, int]] = field(default_factory=dict)


def measure(task: Task) -> Outcome:
    """Checks and times; what the user can be blamed for is a failure of the one configuration."""
    args = made(task.arguments)
    found = Outcome()
    launches: dict[str, Callable[..., None]] = {}
    for name, code in task.codes.items():
        try:
            executable = code.executable(task.target)
            wrong = result_is_wrong(executable, args, task.how) if name in task.unchecked else ""
            if wrong:
                found.failures[name] = wrong
                continue
            launches[name] = launch_of(executable, args)
        except MinitileError as error:
            found.failures[name] = said(error)
            continue
        costs = executable.program.known_costs()
        if costs:
            found.costs[name] = costs.registers, costs.spills
    found.times.update(samples(launches, task.how) if launches else {})
    return found


def made(arguments: Callable[[], Args] | Args) -> Args:
    return arguments() if callable(arguments) else arguments


def where(arguments: Callable[[], Args] | Args) -> tuple[str, str]:
    """What the device calls itself that the arguments are on, and the name of its target."""
    place = place_of(made(arguments))
    return device_name(place), target_at(place.kind, place.index).name


def device_name(place: Place) -> str:
    backend = backend_of_device(place.kind)
    return place.kind if backend is None else backend.device_name(place.index)


def place_of(args: Args) -> Place:
    """Where the first array is. Raises LaunchArgumentError where there is none."""
    arrays = [a for a in args if a is not None and not isinstance(a, (bool, int, float))]
    if not arrays:
        raise LaunchArgumentError("autotune needs the arguments that the kernel will run on")
    try:
        return read(arrays[0])[3]
    except LaunchError as error:
        raise_for_caller(error)


def result_is_wrong(executable: Executable, args: Args, how: How) -> str:
    """Runs it once, where there is a check; what is wrong with the result. Raises MinitileError."""
    if how.check is None:
        return ""
    if how.reset is not None:
        how.reset(*args)
    executable(*args)
    try:
        fine = how.check(*args)
    except Exception as error:
        return f"wrong result: {said(error)}"
    return "wrong result" if fine is False else ""


def launch_of(executable: Executable, args: Args) -> Callable[..., None]:
    """What launches it on these arguments. Raises MinitileError."""
    return partial(executable, *args) if place_of(args).kind == "cpu" else executable.prepare(*args)


def samples(launches: Mapping[str, Callable[..., None]], how: How, turns: int = 1) -> dict[str, Sequence[float]]:
    """Milliseconds by configuration, `turns` times as many rounds as asked for. Raises MinitileError."""
    if how.measure is not None:
        return dict(how.measure(launches))
    from minitile.runtime.timing import time_interleaved

    try:
        return dict(time_interleaved(launches, how.rounds * turns, how.flush_l2))
    except LaunchError as error:
        raise_for_caller(error)


def said(error: BaseException) -> str:
    """An error in one line."""
    text = error.message if isinstance(error, MinitileError) else str(error)
    first = (text.strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"
