"""The command line: `minitile COMMAND …` or `python -m minitile COMMAND …`.

`COMMANDS` is the table of subcommands. Each has a function that adds its arguments and one that runs it and returns the
exit status: 0 fine, 1 something was found (a race, a rejected kernel), 2 the command itself was wrong. What a command
needs is imported when it runs, so that `minitile --help` is quick.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minitile import __version__
from minitile.ir.diagnostics import MinitileError

Arguments = argparse.Namespace


@dataclass(frozen=True, slots=True)
class Command:
    """One subcommand: its line of help, its arguments, what it does."""

    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[Arguments], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line `argv` (the process' own by default); the exit status."""
    parser = argparse.ArgumentParser(prog="minitile", description="A mini-compiler for GPU tile kernels in Python.")
    parser.add_argument("--version", action="version", version=f"minitile {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    words = sys.argv[1:] if argv is None else argv
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help)
        if name in words:  # so that one command does not import what another needs
            command.add_arguments(sub)
    args = parser.parse_args(words)
    try:
        return COMMANDS[args.command].run(args)
    except MinitileError as error:
        print(f"minitile {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `minitile … | head`
        sys.stderr.close()
        return 0


def _add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="PTX text; - reads standard input")
    parser.add_argument("--entry", help="the kernel to run (default: the file's only one)")
    parser.add_argument("--grid", type=_triple, default=(1, 1, 1), metavar="X[,Y[,Z]]", help="blocks (default 1)")
    parser.add_argument("--block", type=_triple, required=True, metavar="X[,Y[,Z]]", help="threads")
    parser.add_argument("--cluster", type=_triple, default=(1, 1, 1), metavar="X[,Y[,Z]]", help="blocks of a cluster")
    parser.add_argument("--dynamic-shared", type=int, default=0, metavar="BYTES")
    parser.add_argument(
        "--args",
        nargs="*",
        default=[],
        metavar="ARG",
        help="the kernel's arguments: f32[128,64] is a random array, f32[64]=0 a filled one, i32=5 a number",
    )
    parser.add_argument("--schedule", choices=("lazy", "eager", "random"), default="lazy", help="when copies land")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of the random schedule")


def _check(args: Arguments) -> int:
    """Executes PTX in the simulator and prints what it finds."""
    from minitile import cli_args
    from minitile.runtime.sim import run_ptx
    from minitile.runtime.sim.errors import SimulationError

    text = _read(args.file)
    entry = args.entry or cli_args.only_entry(text)
    values = cli_args.parse_arguments(args.args, args.seed)
    try:
        report = run_ptx(
            text,
            entry,
            args.grid,
            args.block,
            values,
            cluster=args.cluster,
            dynamic_shared=args.dynamic_shared,
            schedule=args.schedule,
            seed=args.seed,
        )
    except SimulationError as error:
        raise MinitileError(f"cannot execute {args.file}: {error}") from None
    sys.stdout.write(report.stdout)
    for finding in report.findings:
        print(finding)
    executed = sum(report.instructions.values())
    print(f"{entry}: {executed} warp instructions executed, {len(report.findings)} findings", file=sys.stderr)
    return 1 if report.findings else 0


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("show", "clear"), nargs="?", default="show")


def _cache(args: Arguments) -> int:
    """Shows or clears the on-disk cache."""
    from minitile.cache import default_cache

    store = default_cache()
    if store is None:
        print("the cache is switched off (MINITILE_CACHE=0)")
        return 0
    if args.action == "clear":
        print(f"{store.root}: {store.clear()} entries removed")
        return 0
    count = total = 0
    for key, path in store.entries():
        entry = store.load(key)
        if entry is None:
            continue
        count, total = count + 1, total + path.stat().st_size
        arch, registers = entry.meta.get("arch", "?"), entry.meta.get("registers", "?")
        print(f"{key[:16]}  {path.stat().st_size:>9} bytes  {arch}  {registers} registers")
    print(f"{store.root}: {count} entries, {total / 1e6:.2f} MB")
    return 0


def _doctor(_: Arguments) -> int:
    from minitile.doctor import report

    print(report())
    return 0


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MinitileError(f"cannot read {path}: {error}") from None


def _triple(text: str) -> tuple[int, int, int]:
    """`8`, `8,2` or `8,2,1`, as three positive numbers."""
    parts = [int(part) for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or min(parts) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not one to three positive numbers")
    x, y, z = (*parts, 1, 1)[:3]
    return x, y, z


def _late(module: str, name: str) -> Callable[[Any], Any]:
    """The function of that name, from a module that is imported when the function is called."""
    return lambda argument: getattr(importlib.import_module(module), name)(argument)


_KERNELS = "minitile.cli_kernels"

COMMANDS: dict[str, Command] = {
    "compile": Command(
        "compile a kernel; no GPU is needed", _late(_KERNELS, "add_compile"), _late(_KERNELS, "compile_command")
    ),
    "run": Command(
        "run a kernel on random data: on the GPU if there is one, else in the simulator",
        _late(_KERNELS, "add_run"),
        _late(_KERNELS, "run_command"),
    ),
    "opt": Command("run passes on IR text", _late("minitile.opt", "add_arguments"), _late("minitile.opt", "main")),
    "check": Command("execute PTX text in the simulator and report races and other faults", _add_check, _check),
    "bench": Command(
        "run a benchmark of the source tree, or time a kernel on the GPU",
        _late(_KERNELS, "add_bench"),
        _late(_KERNELS, "bench_command"),
    ),
    "cache": Command("show or clear the on-disk cache of compiled kernels", _add_cache, _cache),
    "doctor": Command("say what is installed, which GPUs are usable and what is missing", lambda _: None, _doctor),
}
