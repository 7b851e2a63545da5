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


def _doctor(_: Arguments) -> int:
    from minitile.tools.doctor import report

    print(report())
    return 0


def _late(module: str, name: str) -> Callable[[Any], Any]:
    """The function of that name, from a module that is imported when the function is called."""
    return lambda argument: getattr(importlib.import_module(module), name)(argument)


_KERNELS = "minitile.tools.cli_kernels"

COMMANDS: dict[str, Command] = {
    "compile": Command(
        "compile a kernel; no GPU is needed", _late(_KERNELS, "add_compile"), _late(_KERNELS, "compile_command")
    ),
    "build": Command(
        "write a kernel for C and C++ programs: a header, its source with the code, a CMake file",
        _late("minitile.tools.cli_build", "add_arguments"),
        _late("minitile.tools.cli_build", "main"),
    ),
    "run": Command(
        "run a kernel on random data: on the GPU if there is one, else in the simulator",
        _late(_KERNELS, "add_run"),
        _late(_KERNELS, "run_command"),
    ),
    "opt": Command(
        "run passes on IR text", _late("minitile.tools.opt", "add_arguments"), _late("minitile.tools.opt", "main")
    ),
    "check": Command(
        "execute PTX text or a kernel in the simulator: report races and other faults, or synchronisation to spare",
        _late("minitile.tools.cli_check", "add_arguments"),
        _late("minitile.tools.cli_check", "main"),
    ),
    "prove": Command(
        "prove of a kernel, or of PTX text, that no schedule and no trip count has a race or a deadlock",
        _late("minitile.tools.cli_prove", "add_prove"),
        _late("minitile.tools.cli_prove", "prove_command"),
    ),
    "check-certificate": Command(
        "check the certificate of such a proof against the PTX text that it is of",
        _late("minitile.tools.cli_prove", "add_check"),
        _late("minitile.tools.cli_prove", "check_command"),
    ),
    "explain": Command(
        "say of the fences, waits and barriers of a kernel, or of assembly, where they come from and what they are for",
        _late("minitile.tools.cli_explain", "add_arguments"),
        _late("minitile.tools.cli_explain", "main"),
    ),
    "bench": Command(
        "run a benchmark of the source tree, or time a kernel on the GPU",
        _late(_KERNELS, "add_bench"),
        _late(_KERNELS, "bench_command"),
    ),
    "tilelang": Command(
        "run a TileLang script as it is, or compile its kernels",
        _late("minitile.tilelang.run", "add_arguments"),
        _late("minitile.tilelang.run", "main"),
    ),
    "cache": Command(
        "show, trim or clear the on-disk cache of compiled kernels",
        _late("minitile.tools.cli_cache", "add_arguments"),
        _late("minitile.tools.cli_cache", "main"),
    ),
    "doctor": Command("say what is installed, which GPUs are usable and what is missing", lambda _: None, _doctor),
}
