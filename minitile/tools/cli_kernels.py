"""`minitile compile`, `run` and `bench`: kernels in Python files, from the command line.

A kernel is named FILE.py:NAME; NAME is a kernel or a function that makes one, and can be left out where the file has a
single kernel. Arguments are written as cli_args has them, compile-time parameters as `--set NAME=VALUE`.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minitile.backends.registry import DEFAULT, TARGETS, backends
from minitile.driver.dispatch import DeviceError
from minitile.driver.jit import CompiledKernel, Kernel
from minitile.driver.pipeline import OPTIONAL
from minitile.ir.diagnostics import Location, MinitileError
from minitile.language.math import dtype_of_name
from minitile.runtime import cuda
from minitile.runtime.errors import LaunchError
from minitile.tools import cli_args

MAX_VALUE = 4096  # characters of a parameter's value that is read as Python
STAGES = ("traced_ir", "tile_ir", "thread_ir")


def add_compile(parser: argparse.ArgumentParser) -> None:
    add_kernel(parser, "a tensor that the kernel is compiled for: bf16[8192,8192]; f32[M,64] where a size is unknown")
    made = list(backends())
    texts, binaries = [text for backend in made for text in backend.texts], [backend.binary for backend in made]
    default = " or ".join(backend.texts[-1] for backend in made)
    parser.add_argument(
        "--emit",
        choices=(*STAGES, *texts, *binaries, "launch"),
        help=f"what to write (default {default}); launch: the launch as JSON",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write it (default: standard output)")
    parser.add_argument("--explain", action="store_true", help="say what came out: costs, memory, instructions, times")
    parser.add_argument("--why", action="store_true", help="say of each fence, wait and barrier where it comes from")
    parser.add_argument(
        "--html", metavar="FILE", help="write a page: stages side by side, passes, roles, shared memory"
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    add_kernel(parser, "an argument, in order: f32[128,64] is a random array, f32[64]=0 a filled one, i32=5 a number")
    parser.add_argument("--on", choices=("auto", "gpu", "simulator"), default="auto", help="where (auto: GPU if any)")
    parser.add_argument("--seed", type=cli_args.seed, default=0, help="of the data and of the random schedule")
    parser.add_argument("--schedule", choices=("lazy", "eager", "random"), default="lazy", help="when copies land")
    parser.add_argument("--no-check", action="store_true", help="do not look for races in the simulator")
    parser.add_argument(
        "--rounds", type=cli_args.whole(1, 1_000_000), default=20, help="timed launches on a GPU (default 20)"
    )


def add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="a script of benchmarks/, or FILE.py:KERNEL; without it: what there is")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="the script's arguments, or those of `minitile run`")


def compile_command(args: argparse.Namespace) -> int:
    """Compiles a kernel without running it; writes what --emit names."""
    kernel = load_kernel(args.kernel)
    compiled = compile_kernel(kernel, cli_args.parse_specs(args.args), args)
    # What was asked for has standard output to itself.
    beside = sys.stderr if args.emit and not args.output else sys.stdout
    if args.explain:
        from minitile.tools.explain import explain

        print(explain(compiled), file=beside)
    if args.why:
        from minitile.tools.why import synchronisation, why

        print(why(synchronisation(compiled.text)) or "nothing in it synchronises", file=beside)
    if args.html:
        from minitile.tools.html import html

        _write(html(compiled), args.html)
    if args.emit or args.output or not (args.explain or args.why or args.html):
        _write(_emitted(compiled, args.emit or list(compiled.asm)[-1]), args.output)
    return 0


def run_command(args: argparse.Namespace) -> int:
    """Runs a kernel on random data and says what came out and how long it took."""
    kernel = load_kernel(args.kernel)
    values = cli_args.parse_arguments(args.args, args.seed)
    check_count(kernel, len(values))
    if args.on == "gpu" or (args.on == "auto" and cuda.available()):
        return _run_on_gpu(kernel, values, args)
    start = time.perf_counter()
    compiled = compile_kernel(kernel, tensors_of(values), args, DEFAULT.name)
    middle = time.perf_counter()
    every = compiled.complete(*values)
    before = [np.copy(v) for v in every]
    report = compiled.simulate(*every, schedule=args.schedule, seed=args.seed, check=not args.no_check)
    end = time.perf_counter()
    _summarise(compiled, before, every)
    executed = sum(report.instructions.values())
    print(f"compiled for {compiled.target} in {(middle - start) * 1e3:.0f} ms")
    print(f"simulated in {(end - middle) * 1e3:.0f} ms: {executed} warp instructions")
    print("races were not looked for" if args.no_check else "no findings")
    return 0


def bench_command(args: argparse.Namespace) -> int:
    """Runs a script of benchmarks/, or times a kernel on the GPU."""
    if args.name and ".py" in args.name:
        parser = argparse.ArgumentParser(prog=f"minitile bench {args.name}")
        add_run(parser)
        return run_command(parser.parse_args([args.name, "--on", "gpu", *args.rest]))
    folder = Path(__file__).resolve().parents[2] / "benchmarks"
    scripts = {p.stem: p for p in sorted(folder.glob("*.py")) if "__main__" in p.read_text(encoding="utf-8")}
    if not scripts:
        raise MinitileError("the benchmarks are in the source tree, not in the package", hint="run it in a checkout")
    if args.name is None:
        print("\n".join(scripts))
        return 0
    if args.name not in scripts:
        raise MinitileError(f"there is no benchmark {args.name!r}", hint=f"benchmarks: {', '.join(scripts)}")
    paths = [str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, str(scripts[args.name]), *args.rest], env=environment, check=False
    ).returncode


def load_kernel(text: str) -> Kernel:
    """The kernel that FILE.py:NAME names. Runs the file as a module of its stem's name, with its folder on the path, as
    Python does with a script. Raises MinitileError for what cannot be found and for what the file itself raises."""
    file, _, name = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(file)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # a name too long for the system, or with a zero in it
        is_file = False
    if not is_file:
        raise MinitileError(f"there is no file {file}", hint="name a kernel as FILE.py:KERNEL")
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise MinitileError(f"{file} is no Python file", hint="name a kernel as FILE.py:KERNEL")
    module = importlib.util.module_from_spec(found)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent.resolve()))
    loader = found.loader
    _theirs(lambda: loader.exec_module(module))
    kernels = {n: v for n, v in vars(module).items() if isinstance(v, Kernel)}
    if not name:
        if len(kernels) != 1:
            raise MinitileError(f"{file} has {_listed(kernels)}", hint=f"name one: {file}:KERNEL")
        return next(iter(kernels.values()))
    made = vars(module).get(name)
    if callable(made) and not isinstance(made, Kernel):
        made = _theirs(made)
    if not isinstance(made, Kernel):
        raise MinitileError(f"{file} has no kernel {name!r}", hint=f"it has {_listed(kernels)}")
    return made


def _theirs(run: Callable[[], Any]) -> Any:
    """What the user's code gives; an exception shows the line that raised it instead of how we came there."""
    try:
        return run()
    except MinitileError:
        raise
    except SyntaxError as error:
        loc = Location(error.filename or "<unknown>", error.lineno or 1, (error.offset or 1) - 1)
        raise MinitileError(f"SyntaxError: {error.msg}", loc) from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        outside = [f for f in frames if f.filename != __file__ and not f.filename.startswith("<frozen")]
        loc = None
        if outside:
            at = outside[-1]
            loc = Location(at.filename, at.lineno or 1, at.colno or 0, at.end_colno or 0, at.name)
        raise MinitileError(f"{type(error).__name__}: {error}", loc) from None


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Compile-time parameters from NAME=VALUE; a value is a Python literal, a dtype's name, or else text."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise MinitileError(f"{text!r} sets nothing", hint="write --set NAME=VALUE, as in --set block_M=128")
        settings[name] = _value(value)
    return settings


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text) if len(text) <= MAX_VALUE else text
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # what it raises for text that is no literal
        pass
    try:
        return dtype_of_name(text)
    except MinitileError:
        return text


def add_kernel(
    parser: argparse.ArgumentParser,
    arg_help: str,
    metavar: str = "FILE.py:KERNEL",
    what: str = "a kernel, or a function that makes one",
    options: Sequence[str] = ("--arg",),
) -> None:
    """The arguments that name a kernel and say what it is compiled for."""
    parser.add_argument("kernel", metavar=metavar, help=what)
    parser.add_argument(*options, dest="args", action="append", default=[], metavar="ARG", help=arg_help)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="NAME=VALUE", help="a parameter")
    parser.add_argument("--target", default="auto", help=f"auto, {', '.join(TARGETS)} (default auto)")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PASS",
        help=f"leave out a pass: {', '.join(sorted(OPTIONAL))}",
    )


def compile_kernel(
    kernel: Kernel, tensors: Sequence[Any], args: argparse.Namespace, auto: str = "auto"
) -> CompiledKernel:
    """As the arguments of a command say; `auto` is the target where they name none."""
    target = auto if args.target == "auto" else args.target
    passes = dict.fromkeys(args.without, False)
    return kernel.compile(*tensors, target=target, passes=passes, **parse_settings(args.settings))


def _emitted(compiled: CompiledKernel, what: str) -> str | bytes:
    if what == compiled.backend.binary:
        return compiled.binary
    if what == "launch":
        return json.dumps(compiled.launch_info.to_json(), indent=2) + "\n"
    if what not in compiled.asm:
        raise MinitileError(f"there is no {what} for {compiled.target}", hint=f"there are {', '.join(compiled.asm)}")
    return compiled.asm[what]


def _write(content: str | bytes, output: str | None) -> None:
    if output is None:
        if isinstance(content, bytes) and sys.stdout.isatty():
            raise MinitileError("a binary is not for the screen", hint="add -o FILE")
        sys.stdout.flush()
        sys.stdout.buffer.write(content) if isinstance(content, bytes) else sys.stdout.write(content)
        return
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        Path(output).write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError as error:
        raise MinitileError(f"cannot write {output}: {error}") from None


def check_count(kernel: Kernel, given: int) -> None:
    """Raises MinitileError unless there is an argument for each parameter that a call has to pass."""
    every = kernel.signature.runtime
    passed = [p for p in every if not p.made]
    least = max((i for i, p in enumerate(passed, 1) if p.required), default=0)
    if not least <= given <= len(passed) and given != len(every):
        count = str(len(passed)) if least == len(passed) else f"{least} to {len(passed)}"
        raise MinitileError(
            f"{kernel.__name__} takes {count} arguments ({', '.join(p.name for p in passed)}), and {given} are given",
            hint="write an --arg for each, as in --arg 'f32[128,64]' --arg i32=5; none leaves an optional tensor out",
        )


def tensors_of(values: Sequence[Any]) -> list[Any]:
    """What a kernel is compiled for, of its arguments: the arrays, and None for a tensor that is left out."""
    return [v for v in values if v is None or not isinstance(v, np.generic)]


def _run_on_gpu(kernel: Kernel, values: list[Any], args: argparse.Namespace) -> int:
    from minitile.runtime.buffers import DeviceArray, time_launches

    try:
        start = time.perf_counter()
        compiled = compile_kernel(kernel, tensors_of(values), args)
        every = compiled.complete(*values)
        arrays = [DeviceArray(v) if isinstance(v, np.ndarray) else v for v in every]
        prepared = compiled.prepare(*arrays)
        middle = time.perf_counter()
        prepared(0)
        _summarise(compiled, every, [_on_host(a) for a in arrays])
        times = time_launches(prepared, args.rounds)
        device = cuda.device_info(0)
    except LaunchError as error:
        raise DeviceError(error.message, hint=error.hint) from None
    print(f"compiled for {compiled.target} and loaded in {(middle - start) * 1e3:.0f} ms")
    print(f"{device.name}: median {statistics.median(times) * 1e3:.1f} µs, least {min(times) * 1e3:.1f} µs")
    return 0


def _on_host(value: Any) -> Any:
    return value.to_host() if hasattr(value, "to_host") else value


def _summarise(compiled: CompiledKernel, before: Sequence[Any], after: Sequence[Any]) -> None:
    """A line for each argument: what it is, whether the kernel wrote it, what it holds now."""
    for arg, old, new in zip(compiled.launch_info.args, before, after, strict=True):
        if not isinstance(new, np.ndarray):
            print(f"{arg.name:<12} {dtype_of_name(arg.dtype).numpy.name} = {new}")
            continue
        what = f"{arg.name:<12} {new.dtype.name}"
        changed = "written" if old.tobytes() != new.tobytes() else "unchanged"
        print(f"{what}{list(new.shape)}  {changed}{_statistics(new)}")


def _statistics(array: np.ndarray) -> str:
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not array.size:
        return ""
    bad = f", {array.size - finite.size} not finite" if finite.size < array.size else ""
    if not finite.size:
        return bad
    return f"  least {finite.min():.6g}, most {finite.max():.6g}, mean {finite.mean():.6g}{bad}"


def _listed(kernels: dict[str, Kernel]) -> str:
    return f"the kernels {', '.join(kernels)}" if kernels else "no kernel"
