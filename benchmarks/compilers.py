"""What the contests' programs share: options, the run over all cases, our examples, compiling with nothing cached."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contest import Crashed, Missing, short
from report import Report, draw_file

EXAMPLES = Path(__file__).parents[1] / "examples"


def options(
    description: str, contenders: Sequence[str], reference: bool = False, rounds: int = 25, batch_ms: float = 5.0
) -> argparse.ArgumentParser:
    """What the command lines of the contests share; whether there may be hand-written texts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--contenders", nargs="+", choices=contenders, default=list(contenders))
    parser.add_argument("--rounds", type=int, default=rounds, help="rounds that count")
    parser.add_argument("--batch-ms", type=float, default=batch_ms, help="milliseconds that one contender's turn takes")
    if reference:
        parser.add_argument("--reference", metavar="DIR", help="time the hand-written PTX of DIR/reference.json too")
    parser.add_argument("--out", metavar="NAME", help="write NAME.md, NAME.json, NAME.svg")
    parser.add_argument("--plot", metavar="NAME.json", help="draw the plot of a result and do nothing else")
    return parser


def add_cases(parser: argparse.ArgumentParser, read: Callable[[str], Any], cases: Iterable[Any], metavar: str) -> None:
    """`--cases`, by default these; `read` raises ArgumentTypeError."""
    parser.add_argument("--cases", nargs="+", type=read, default=list(cases), metavar=metavar)


def only_plots(args: argparse.Namespace) -> bool:
    """Draws the plot, if that is what was asked for."""
    if args.plot:
        print(draw_file(args.plot))
    return bool(args.plot)


def run(problems: Sequence[Any], measure: Callable[[Any], None], page: Report, out: str | None) -> None:
    """Measures all problems and prints the page. What there is is written after each one, so that it stays when an
    entry ends the run."""
    ended = ""
    for problem in problems:
        start = time.perf_counter()
        try:
            measure(problem)
        except Crashed as culprit:
            ended = f"The run ended early, in {problem}: {culprit}"
            page.remarks.append(ended)
        print(ended or f"{problem}: {time.perf_counter() - start:.1f} s", flush=True)
        if out:
            page.write(out, plot=False)
        if ended:
            break
    print(page.markdown())
    if out:
        print("\n".join(page.write(out)))
    if ended:
        raise SystemExit(1)


def fresh_caches() -> None:
    """So that every compiler compiles, and the times of it are of that; and says nothing meanwhile."""
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["TILELANG_PRINT_ON_COMPILATION"] = "0"
    os.environ["MINITILE_CACHE"] = "0"
    os.environ["CUDA_CACHE_DISABLE"] = "1"  # the driver's own, of what its JIT compiled
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="triton-")


def example(name: str) -> Any:
    """The module examples/NAME.py. The examples import each other, and run on the GPU, as scripts of their folder."""
    import importlib.util

    os.environ["MINITILE_GPU"] = "1"
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Ours:
    """A kernel of minitile's that was compiled and loaded: what that took and of what, what it costs on the GPU."""

    compiled: Any
    seconds: float
    stages: str
    facts: dict[str, Any]


def stages(timings: Mapping[str, float], assembler: str, seconds: float) -> str:
    """A compiled kernel's milliseconds by stage, and its assembler's, in words."""
    spent = {**{name: timings[name] for name in ("trace", "passes", "ptx")}, assembler: seconds * 1e3}
    return ", ".join(f"{name} {milliseconds:.0f} ms" for name, milliseconds in spent.items())


def compile_ours(kernel: Any, arrays: Sequence[Any], **constants: Any) -> Ours:
    """Compiles for the GPU's own target and loads: the assembler, or the driver's, is part of it."""
    start = time.perf_counter()
    compiled = kernel.compile(*arrays, target="auto", **constants)
    middle = time.perf_counter()
    compiled.prepare(*arrays)
    end = time.perf_counter()
    costs = compiled.executable.program.costs_on(compiled.target.arch)
    spent = stages(compiled.timings, costs.assembler, end - middle)
    facts = {"registers": compiled.registers, "bytes spilled": compiled.spills}
    return Ours(compiled, end - start, spent, facts)


def compile_ahead(
    wanted: Sequence[tuple[Any, Any]], program: Callable[[Any, Any], Any], timed: int = 2, **options: Any
) -> dict:
    """TileLang's kernels of these (problem, tiles): the first `timed` one after the other, for their times, the rest at
    once on all cores. By key: (kernel, or None where it does not compile; seconds or None; why not)."""
    try:
        import tilelang
    except ImportError as error:
        raise Missing(f"not installed ({error})") from None
    tilelang.disable_cache()
    found: dict[Any, tuple[Any, float | None, str]] = {}
    for key in wanted[:timed]:
        start = time.perf_counter()
        try:
            kernel, reason = tilelang.compile(program(*key), **options), ""
        except Exception as error:
            kernel, reason = None, short(error)
        found[key] = kernel, None if reason else time.perf_counter() - start, reason
    rest = list(wanted[timed:])
    if rest:
        kernels = tilelang.par_compile([program(*key) for key in rest], ignore_error=True, **options)
        for key, kernel in zip(rest, kernels, strict=True):
            found[key] = kernel, None, "" if kernel else "does not compile"
    return found
