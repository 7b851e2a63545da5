"""`minitile check`: PTX or AMD assembly, or a kernel, in the simulator, under the race model.

    minitile check gemm.ptx --grid 4,4 --block 128 --args bf16[256,256] bf16[256,256] bf16[256,256]=0
    minitile check copy.ptx --block 128 --args bf16[256,96]@64,32/64 bf16[256,96]=0
    minitile check examples/softmax.py:softmax --redundant --args f32[4,1000] f32[4,1000]=0

It prints what the race model finds, with the lines of both accesses and the cure. `--redundant` asks the opposite: it
takes each synchronising instruction away in turn, runs again under several schedules, and lists those that nothing
misses on the sizes given (see `runtime.sim.removals`). `--masked` lists the accesses of a kernel that the tensors'
bounds cut off, by source line. `--cycles` prints an estimate of AMD code's cycles instead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minitile.backends.base import Backend
from minitile.backends.registry import DEFAULT, backend_of_text
from minitile.driver.masked import copied, masked_accesses
from minitile.driver.simulate import launch_of
from minitile.ir.diagnostics import MinitileError
from minitile.runtime.sim import Report
from minitile.runtime.sim.core.errors import SimulationError
from minitile.runtime.sim.core.report import described
from minitile.runtime.sim.mutate.ptx import redundant, runner
from minitile.tools import cli_args
from minitile.tools.opt import read_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "f32[128,64] is a random array, f32[64]=0 a filled one, i32=5 a number, bf16[256,96]@64,32/64 a tensor map "
    what += "with boxes of 64 by 32 and a swizzle of 64 bytes (PTX only)"
    parser.add_argument(
        "file", metavar="FILE.ptx|FILE.s|FILE.py:KERNEL", help="assembly text (- reads standard input), or a kernel"
    )
    parser.add_argument("--redundant", action="store_true", help="list the synchronisation that nothing would miss")
    parser.add_argument("--masked", action="store_true", help="list the accesses of a kernel that bounds cut off")
    parser.add_argument("--cycles", action="store_true", help="estimate the cycles of AMD code and what they go to")
    parser.add_argument("--schedule", choices=("lazy", "eager", "random"), default="lazy", help="when copies land")
    parser.add_argument("--seed", type=cli_args.seed, default=0, help="of the data and of the random schedule")
    parser.add_argument("--arg", dest="each", action="append", default=[], metavar="ARG", help=f"an argument: {what}")
    parser.add_argument("--args", nargs="*", default=[], metavar="ARG", help="the same, all of them at once")
    ptx = parser.add_argument_group("for assembly text")
    ptx.add_argument("--entry", help="the kernel to run (default: the file's only one)")
    ptx.add_argument("--grid", type=cli_args.triple, default=(1, 1, 1), metavar="X[,Y[,Z]]", help="blocks (default 1)")
    ptx.add_argument("--block", type=cli_args.triple, metavar="X[,Y[,Z]]", help="threads")
    ptx.add_argument(
        "--cluster", type=cli_args.triple, default=(1, 1, 1), metavar="X[,Y[,Z]]", help="blocks of a cluster"
    )
    ptx.add_argument("--dynamic-shared", type=cli_args.whole(0, 1 << 20), default=0, metavar="BYTES")
    kernel = parser.add_argument_group("for kernels")
    kernel.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE", help="a parameter")
    kernel.add_argument("--target", default="auto", help=f"what to compile for (default {DEFAULT})")
    kernel.add_argument("--without", action="append", default=[], metavar="PASS", help="leave out a pass")


def main(args: argparse.Namespace) -> int:
    """Prints the findings, or the redundant instructions; 1 if there are any."""
    is_kernel = ".py" in args.file
    values = cli_args.parse_arguments([*args.each, *args.args], args.seed, maps=not is_kernel)
    case = _kernel_case(args, values) if is_kernel else _text_case(args, values)
    try:
        if args.cycles:
            estimate = case.backend.estimator()
            print(estimate(case.text, case.entry, case.grid, case.block, case.arguments(), **case.options))
            return 0
        if args.masked:
            return _masked(case)
        return _redundant(case) if args.redundant else _findings(case, args.schedule, args.seed)
    except SimulationError as error:
        raise MinitileError(f"cannot execute {args.file}: {error}") from None


@dataclass(frozen=True)
class Case:
    """What is run: a text, its geometry, and `arguments`, which makes its arguments anew."""

    backend: Backend
    text: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    options: dict[str, Any]
    arguments: Callable[[], Sequence[Any]]
    masked: Callable[[], Sequence[Any]] | None = None  # the accesses that bounds cut off; None: not known of a text

    @property
    def simulate(self) -> Callable[..., Report]:
        """The simulator of the text."""
        return self.backend.simulator()


def _text_case(args: argparse.Namespace, values: Sequence[Any]) -> Case:
    if args.block is None:
        raise MinitileError("how many threads has a block?", hint="add --block, as in --block 128")
    text = read_text(args.file)
    backend = backend_of_text(text)
    entry = args.entry or cli_args.only_entry(text)
    options = backend.text_options(args.cluster, args.dynamic_shared)
    return Case(backend, text, entry, args.grid, args.block, options, lambda: [value.copy() for value in values])


def _kernel_case(args: argparse.Namespace, values: Sequence[Any]) -> Case:
    from minitile.tools.cli_kernels import check_count, compile_kernel, load_kernel, tensors_of

    kernel = load_kernel(args.file)
    check_count(kernel, len(values))
    compiled = compile_kernel(kernel, tensors_of(values), args, DEFAULT.name)
    info = compiled.launch_info
    every = compiled.complete(*values)
    grid, _ = launch_of(info, every)
    if 0 in grid:
        raise MinitileError("the grid is empty on these sizes: nothing runs")
    options = compiled.backend.launch_options(info)

    def arguments() -> Sequence[Any]:
        return launch_of(info, copied(every))[1]

    def masked() -> Sequence[Any]:
        return masked_accesses(compiled, copied(every))

    return Case(compiled.backend, compiled.text, info.entry, grid, info.block, options, arguments, masked)


def _findings(case: Case, schedule: str, seed: int) -> int:
    report = case.simulate(
        case.text, case.entry, case.grid, case.block, case.arguments(), schedule=schedule, seed=seed, **case.options
    )
    sys.stdout.write(report.stdout)
    if report.findings:
        print(described(report.findings, shown=len(report.findings)))
    executed = sum(report.instructions.values())
    print(f"{case.entry}: {executed} warp instructions executed, {len(report.findings)} findings", file=sys.stderr)
    return 1 if report.findings else 0


def _masked(case: Case) -> int:
    """Not an error by itself: a kernel may count on bounds."""
    if case.masked is None:
        raise MinitileError("which accesses bounds cut off is not known of assembly text", hint="give FILE.py:KERNEL")
    found = case.masked()
    for each in found:
        print(each)
    print(f"{case.entry}: {sum(each.count for each in found)} accesses cut off by bounds", file=sys.stderr)
    return 0


def _redundant(case: Case) -> int:
    run = runner(case.entry, case.grid, case.block, case.arguments, case.simulate, **case.options)
    found, count = redundant(case.text, case.entry, run, case.backend.mutations())
    for each in found:
        print(f"nothing misses {each}")
    print(f"{case.entry}: {count} synchronising instructions, {len(found)} to spare on these sizes", file=sys.stderr)
    return 1 if found else 0
