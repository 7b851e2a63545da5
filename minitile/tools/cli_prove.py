"""`minitile prove` and `minitile check-certificate`: proofs of synchronisation from PTX text (docs/proof.md).

    minitile prove gemm.ptx --block 256 --map A_map0=bf16:64,32 --map B_map1=4096 -o gemm.proof.json
    minitile prove examples/gemm.py:gemm_nt_bf16 --target sm_90a --arg 'bf16[M,K]' --arg 'bf16[N,K]' --arg 'bf16[M,N]'
    minitile check-certificate gemm.proof.json gemm.ptx

Exit status: 0 proved or accepted, 1 a fault, a refusal, or a certificate that is not accepted.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

from minitile.ir.diagnostics import MinitileError
from minitile.ir.types import dtype
from minitile.proof import Answer, Launch, Refused, answer, check
from minitile.proof.check import launch_of
from minitile.tools import cli_args
from minitile.tools.opt import read_text

SHOWN = 16  # steps of a run at fault that are printed
_MAP = re.compile(r"(\w+)=(?:(\d+)|(\w+):(\d+(?:,\d+)*))")
_FACT = re.compile(r"(\w+)=(\d+)")


def add_prove(parser: argparse.ArgumentParser) -> None:
    from minitile.tools.cli_kernels import add_kernel

    what = "a tensor that the kernel is compiled for: bf16[8192,8192]; f32[M,64] where a size is unknown"
    add_kernel(parser, what, "FILE.ptx|FILE.py:KERNEL", "PTX text (- reads standard input), or a kernel")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the certificate, as JSON")
    parser.add_argument(
        "--steps", action="store_true", help="print all steps of a run at fault, not only the last ones"
    )
    parser.add_argument("--seconds", type=cli_args.whole(1, 86400), default=60, help="for the proof (default 60)")
    kernel = parser.add_argument_group("for kernels")
    kernel.add_argument(
        *("--examples", "-e"),
        type=cli_args.whole(0, 86400),
        default=20,
        help="seconds to look for sizes on which the simulator shows a fault (default 20)",
    )
    text = parser.add_argument_group("for PTX text")
    text.add_argument(
        "--block", type=cli_args.triple, metavar="X[,Y[,Z]]", help="threads (default: what .reqntid says)"
    )
    text.add_argument("--dynamic-shared", type=cli_args.whole(0, 1 << 20), metavar="BYTES")
    text.add_argument("--shared-aligned", type=cli_args.whole(0, 1 << 20), default=0, metavar="BYTES",
                      help="what dynamic shared memory is aligned to, if more than the text declares")  # fmt: skip
    boxes = "a tensor map's box: NAME=BYTES, or NAME=bf16:64,32 for a dtype and elements"
    text.add_argument("--map", dest="maps", action="append", default=[], metavar="NAME=BOX", help=boxes)
    divides = "what launches keep: the parameter is a multiple of N (loops whose first test is gone need it)"
    text.add_argument("--divides", action="append", default=[], metavar="NAME=N", help=divides)
    least = (
        "what launches keep: the parameter is N at least (a tile that is fetched without a test of how many there are)"
    )
    text.add_argument("--least", action="append", default=[], metavar="NAME=N", help=least)


def prove_command(args: argparse.Namespace) -> int:
    """Says what is found; writes the certificate if it is proved."""
    found = _of_kernel(args) if ".py" in args.kernel else _of_text(args)
    print(found)
    if "tensor map that is not known" in found.reason:
        print("  hint: say how large the box of each tensor map is: --map A_map0=4096, or --map A_map0=bf16:64,32")
    if found.steps:
        steps = found.steps if args.steps else found.steps[-SHOWN:]
        if len(steps) < len(found.steps):
            print(f"  … {len(found.steps) - len(steps)} steps before (--steps shows them)")
        for each in steps:
            print(f"  {each}")
        if found.sizes is not None:
            sizes = ", ".join(f"{name} = {size}" for name, size in found.sizes.items()) or "any sizes"
            print(f"shown by the simulator on {sizes}: {found.shown}")
    if found and args.output:
        _write(args.output, found)
    return 0 if found else 1


def _of_kernel(args: argparse.Namespace) -> Answer:
    from minitile.backends.registry import DEFAULT
    from minitile.tools.cli_kernels import compile_kernel, load_kernel

    if args.block or args.dynamic_shared or args.maps or args.divides or args.least:
        raise MinitileError(
            "--block, --dynamic-shared, --map, --divides and --least are for PTX text: a kernel knows its launch"
        )
    kernel = load_kernel(args.kernel)
    compiled = compile_kernel(kernel, cli_args.parse_specs(args.args), args, DEFAULT.name)
    return compiled.certificate(seconds=args.seconds, examples=args.examples)


def _of_text(args: argparse.Namespace) -> Answer:
    if args.args or args.settings or args.without:
        raise MinitileError("--arg, --set and --without are for kernels, not for PTX text")
    boxes = dict(_box(each) for each in args.maps)
    divides = dict(_fact(each) for each in args.divides)
    least = dict(_fact(each) for each in args.least)
    block = args.block or ()
    threads = math.prod(block) if block else None
    shape = block if max(block[1:], default=1) > 1 else ()
    launch = Launch(boxes, threads, args.dynamic_shared, divides, least, aligned=args.shared_aligned, block=shape)
    text = read_text(args.kernel)
    for name in (*boxes, *divides, *least):
        if not re.search(rf"\.param\b[^\n]*\b{re.escape(name)}\b", text):
            raise MinitileError(f"{args.kernel} has no parameter {name!r}", hint="write it as .param in the text does")
    return answer(text, launch, seconds=args.seconds)


def _box(text: str) -> tuple[str, int]:
    found = _MAP.fullmatch(text)
    if not found:
        raise MinitileError(f"{text[:60]!r} is no box", hint="write A_map=4096, or A_map=bf16:64,32")
    if found[2]:
        return found[1], int(found[2])
    try:
        bits = dtype(found[3]).bits
    except KeyError:
        raise MinitileError(f"unknown dtype {found[3]!r} in {text[:60]!r}") from None
    return found[1], math.prod(map(int, found[4].split(","))) * bits // 8


def _fact(text: str) -> tuple[str, int]:
    found = _FACT.fullmatch(text)
    if not found or int(found[2]) < 1:
        raise MinitileError(f"{text[:60]!r} is no number of a parameter", hint="write K=8")
    return found[1], int(found[2])


def _write(path: str, found: Answer) -> None:
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(found.certificate, separators=(",", ":")) + "\n")
    except OSError as error:
        raise MinitileError(f"cannot write {path}: {error}") from None


def add_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificate", metavar="CERTIFICATE.json", help="what `minitile prove -o` wrote")
    parser.add_argument("file", metavar="FILE.ptx", help="the PTX text that it is of (- reads standard input)")
    parser.add_argument("--seconds", type=cli_args.whole(1, 86400), default=600, help="at most (default 600)")


def check_command(args: argparse.Namespace) -> int:
    """Says whether the certificate is accepted, and for which launch."""
    try:
        data = json.loads(read_text(args.certificate))
    except (json.JSONDecodeError, RecursionError) as error:
        order = "the certificate comes first, then the text: minitile check-certificate FILE.json FILE.ptx"
        raise MinitileError(f"cannot read {args.certificate} as JSON: {error}", hint=order) from None
    try:
        launch = launch_of(data)  # `check` compares it with the certificate; whether it is meant, people must judge
        states = check(data, read_text(args.file), launch, seconds=args.seconds)
    except Refused as why:
        print(f"not accepted: {why}")
        return 1
    print(f"accepted: {states} states, for launches of {_described(launch)}")
    if data["lines"]:  # those of `together`, as the checker has found
        lines = ", ".join(map(str, data["lines"]))
        print(f"assuming that the lanes of a warp leave the waits of these lines together: {lines}", file=sys.stderr)
    return 0


def _expression(size: Any) -> str:
    if not isinstance(size, tuple):
        return str(size)
    if size[0] == "param":
        return str(size[1])
    sign = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//"}[size[0]]
    return f"({_expression(size[1])} {sign} {_expression(size[2])})"


def _described(launch: Launch) -> str:
    parts = [f"{launch.threads} threads" if launch.threads else "the declared number of threads"]
    if launch.shared:
        parts.append(f"{launch.shared} bytes of dynamic shared memory")
    if launch.aligned:
        parts.append(f"dynamic shared memory aligned to {launch.aligned} bytes")
    parts += [f"{name} with boxes of {size} bytes" for name, size in sorted(launch.boxes.items())]
    parts += [f"{name} a multiple of {n}" for name, n in sorted(launch.divides.items()) if n > 1]
    parts += [f"{name} at least {n}" for name, n in sorted(launch.least.items())]
    if launch.grid:
        parts.append("a grid of " + " by ".join(_expression(size) for _, size in sorted(launch.grid.items())))
    return ", ".join(parts)
