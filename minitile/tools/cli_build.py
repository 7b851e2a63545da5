"""`minitile build`: a kernel for C and C++ programs, as files (see tools/c)."""

from __future__ import annotations

import argparse

from minitile.ir.diagnostics import MinitileError
from minitile.tools import cli_args
from minitile.tools.cli_kernels import add_kernel, compile_kernel, load_kernel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_kernel(
        parser,
        "a tensor that the kernel is compiled for: bf16[8192,8192]; f32[M,64] where a size is unknown. What divides a "
        "size is a part of the kernel, the size itself is not",
        options=("--spec", "--arg"),
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", default=".", help="where the files go (default: here)")
    parser.add_argument("--name", default="", help="what it is called in C (default: the kernel's name)")
    parser.add_argument("--save", metavar="FILE", help="write it for minitile.load, too")


def main(args: argparse.Namespace) -> int:
    """Compiles a kernel and writes its header, its source, its CMake file and its code."""
    from minitile.tools.c import write

    compiled = compile_kernel(load_kernel(args.kernel), cli_args.parse_specs(args.args), args)
    saved = compiled.saved
    if {*saved.images} == {"ptx"}:
        print("no assembler here does all that the text asks for: the driver compiles it, when it is first launched")
    try:
        for path in write(saved, args.output, args.name):
            print(path)
        if args.save:
            saved.write(args.save)
            print(args.save)
    except OSError as error:
        raise MinitileError(f"cannot write {error.filename}: {error.strerror}") from None
    return 0
