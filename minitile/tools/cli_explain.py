"""`minitile explain`: why a kernel's assembly synchronises where it does.

    minitile explain examples/gemm.py:gemm_nt_bf16 --target sm_90a --arg 'bf16[8192,8192]' … --line 67
    minitile explain gemm.ptx --line 51

For each fence, wait, barrier and mbarrier operation: which pass has inserted it, or the program itself; the reason; and
the source lines of the accesses that it stands between. `--line` is a line of the file that is named: of a kernel's
source, what serves an access of that line; of assembly, what stands on it. Exit status 1: there is nothing of the kind.
"""

from __future__ import annotations

import argparse

from minitile.tools import cli_args
from minitile.tools.opt import read_text
from minitile.tools.why import Synchronisation, synchronisation, why


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from minitile.tools.cli_kernels import add_kernel

    tensor = "a tensor that the kernel is compiled for: bf16[8192,8192]; f32[M,64] where a size is unknown"
    add_kernel(parser, tensor, "FILE.py:KERNEL|FILE.ptx|FILE.s", "a kernel, or assembly that minitile has written")
    parser.add_argument("--line", type=cli_args.whole(1, 1 << 30), metavar="N", help="only what has to do with it")


def main(args: argparse.Namespace) -> int:
    """Runs the command."""
    file, _, _ = args.kernel.rpartition(":") if ".py:" in args.kernel else (args.kernel, "", "")
    if file.endswith(".py"):
        from minitile.tools.cli_kernels import compile_kernel, load_kernel

        compiled = compile_kernel(load_kernel(args.kernel), cli_args.parse_specs(args.args), args)
        found = synchronisation(compiled.text)
        chosen = [one for one in found if args.line is None or one.serves(file, args.line)]
    else:
        found = synchronisation(read_text(file))
        chosen = [one for one in found if args.line is None or args.line in one.lines]
    print(why(chosen) or _nothing(found, file, args.line))
    return 0 if chosen else 1


def _nothing(found: list[Synchronisation], file: str, line: int | None) -> str:
    if line is None or not found:
        return f"{file}: no fence, wait or barrier says where it comes from"
    return f"{file}: no fence, wait or barrier has to do with line {line}"
