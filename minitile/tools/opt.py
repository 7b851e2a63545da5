"""`minitile opt FILE --pass NAME`: IR text in, passes run over it, IR text out.

    minitile opt kernel.mt                                    # read, print: the normal spelling
    minitile opt kernel.mt --pass pipeline --pass fold --verify
    MINITILE_DUMP=all minitile opt kernel.mt --pass …         # also after each pass, on stderr

A file may name its passes and target itself, in its first comment lines (`// pass: pipeline, fold`,
`// target: sm_80`); what stands below a line `// ----` (a filetest's expectation) is not read.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from minitile.ir.core import Kernel
from minitile.ir.diagnostics import InternalError, IRError, MinitileError
from minitile.ir.parser import parse_kernel
from minitile.ir.printer import print_kernel
from minitile.ir.verifier import verify as verify_kernel
from minitile.target import DEFAULT, parse_target
from minitile.transforms.manager import Pass, PassContext, current_name, run_passes

# Whether a pass that breaks down is said so as an InternalError; a fuzzer switches it off.
LAST_RESORT = True
EITHER = frozenset({"simplify", "cse", "licm", "dead_code"})  # passes that ask for nothing of a stage
SEPARATOR = "// ----"
_HEADER = re.compile(r"//\s*(pass|target)\s*:\s*(.*\S)\s*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="IR text; - reads standard input")
    parser.add_argument("--pass", dest="passes", action="append", default=[], metavar="NAME", help="run this pass")
    parser.add_argument("--target", help=f"the architecture that the passes compile for (default: {DEFAULT})")
    parser.add_argument("--verify", action="store_true", help="verify the IR before, between and after the passes")
    parser.add_argument("--locations", action="store_true", help="print each operation's source location")


def main(args: argparse.Namespace) -> int:
    """Runs the command; the process' exit status."""
    try:
        file = "<stdin>" if args.file == "-" else args.file
        kernel = optimize(read_text(args.file), file, args.passes, args.target, args.verify)
    except MinitileError as e:
        print(f"minitile opt: {e}", file=sys.stderr)
        return 1
    sys.stdout.write(print_kernel(kernel, locations=args.locations))
    return 0


def optimize(
    text: str, file: str = "<ir>", passes: list[str] | None = None, target: str | None = None, verify: bool = False
) -> Kernel:
    """The kernel of the text after the passes, those given or else those that the text's header names.

    Raises IRError for malformed text, MinitileError for an unknown pass, TargetError for an unknown target.
    """
    header = read_header(text)
    names = passes or [name.strip() for name in header.get("pass", "").split(",") if name.strip()]
    chosen = parse_target(target or header.get("target") or DEFAULT)
    kernel = parse_kernel(text.partition(f"\n{SEPARATOR}")[0], file)
    if verify or names:  # a pass may count on IR being well-formed
        verify_kernel(kernel)
    if names:
        # Reading and checking text needs no backend; only passes do.
        from minitile.driver.pipeline import make_context

        staged = [(name, _staged(name, find_pass(name))) for name in names]
        try:
            run_passes(kernel, staged, make_context(chosen), verify=verify)
        except MinitileError:
            raise
        except Exception as problem:
            if not LAST_RESORT:
                raise
            raise InternalError(f"the passes {', '.join(names)}: {type(problem).__name__}: {problem}") from problem
    return kernel


def _staged(name: str, run: Pass) -> Pass:
    """The pass, which refuses a kernel of a stage that the pipeline would not give it."""
    from minitile.driver.pipeline import THREAD_PASSES, TILE_PASSES

    if name in EITHER:
        return run
    stages = [stage for stage, passes in (("tile", TILE_PASSES), ("thread", THREAD_PASSES)) if name in dict(passes)]
    legal = {*stages, *(("traced",) if "tile" in stages else ())} or {"tile"}  # `lower` goes from one to the other

    def checked(kernel: Kernel, context: PassContext) -> None:
        if kernel.stage not in legal:
            raise IRError(f"the pass {name} is for {' and '.join(sorted(legal))} IR; this is {kernel.stage} IR")
        run(kernel, context)

    return checked


def read_header(text: str) -> dict[str, str]:
    """The settings in the comment lines that a text begins with."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("//"):
            break
        match = _HEADER.fullmatch(line)
        if match:
            found[match[1]] = match[2]
    return found


def find_pass(name: str) -> Pass:
    """The pass of that name. Raises MinitileError with the names there are."""
    from minitile.driver.pipeline import PASSES

    found: Pass | None = PASSES.get(current_name(name))
    if found is None:
        raise MinitileError(f"there is no pass {name!r}", hint=f"passes: {', '.join(PASSES)}")
    return found


def read_text(path: str) -> str:
    """Of a file; "-" is standard input. Raises MinitileError."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise MinitileError(f"cannot read {path}: {e}") from e
