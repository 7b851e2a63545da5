"""`minitile tilelang FILE [args]`: runs a TileLang script with this package in TileLang's place.

`--compile-only` compiles each kernel that the script comes to, for `--target`, and runs none: tensors have no content
then, packages that are not installed stand for themselves, and the exit status is 1 where a kernel did not compile.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from minitile.ir.diagnostics import MinitileError
from minitile.target import parse_target
from minitile.tilelang import hook
from minitile.tilelang.mode import MODE, Mode, Record
from minitile.tilelang.testing import needed, parameter_sets


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--compile-only", action="store_true", help="compile each kernel for --target, run none")
    parser.add_argument("--target", default="auto", help="sm_80, sm_90a, gfx942, …; default: the device that is there")
    parser.add_argument("--cpu", action="store_true", help="torch's CPU tensors in place of CUDA's: in the simulator")
    parser.add_argument("file", help="the script")
    parser.add_argument("args", nargs=argparse.REMAINDER, help="arguments of the script")


def main(args: argparse.Namespace) -> int:
    if not os.path.isfile(args.file):
        raise MinitileError(f"there is no file {args.file}")
    if args.target != "auto":
        parse_target(args.target)
    if args.compile_only:
        mode, stopped = compile_script(args.file, args.args, "sm_90a" if args.target == "auto" else args.target)
        return _report(mode, stopped)
    MODE.target = args.target
    if args.target != "auto":
        os.environ["MINITILE_TARGET"] = args.target
    with hook.in_place(), _script(args.file, args.args), _on_cpu(args.cpu):
        try:
            runpy.run_path(args.file, run_name="__main__")
        except ModuleNotFoundError as error:
            if error.name is None or find_spec(error.name.partition(".")[0]) is not None:
                raise
            message = f"{os.path.basename(args.file)} needs {error.name}, which is not installed"
            hint = "--compile-only compiles the script's kernels without the packages that are missing"
            raise MinitileError(message, hint=hint) from error
    return 0


def _report(mode: Mode, stopped: str) -> int:
    for record in mode.records:
        where = f"{os.path.basename(record.file)}:{record.line}"
        launches = f", {record.launches} launches" if record.launches > 1 else ""
        first = record.error.splitlines()[0] if record.error else ""
        print(f"{record.name} ({where}){launches}: {first or f'compiled in {record.seconds * 1e3:.0f} ms'}")
    refused = sum(bool(r.error) for r in mode.records)
    print(f"{len(mode.records)} kernels compiled for {mode.target}, {refused} of them refused")
    if stopped:
        print(f"the script stopped: {stopped}")
    return 1 if refused or stopped or not mode.records else 0


def compile_script(
    file: str, args: Sequence[str], target: str, tests: Sequence[str] = (), calls: Sequence[str] = ()
) -> tuple[Mode, str]:
    """Runs a script in compile-only mode, without what it prints; what was compiled, and the error that it ended with
    ("" if none). calls: Python text that is run afterwards among the script's names; tests: files whose tests are run
    if the script came not to all of its kernels."""
    MODE.clear(target)
    stopped = ""
    try:
        with hook.in_place(stand_ins=True), _script(file, args), _silent():
            names: dict[str, Any] = {}
            stopped = _stops(partial(_run_main, file, names))
            for text in calls:
                stopped = _stops(partial(exec, text, names)) or stopped
            for name in _ENTRIES:
                if MODE.unreached() and callable(names.get(name)) and not needed(names[name]):
                    _stops(names[name])
            for test in tests:
                if MODE.unreached():
                    _stops(partial(_run_tests, test))
        return MODE.copy(), stopped
    finally:
        MODE.clear("")


_ENTRIES = ("main", "run_regression_perf")  # functions that scripts have, and may not call


def _run_main(file: str, names: dict[str, Any]) -> None:
    """The script as the main module, whose names are there also when it stops."""
    main = ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=__builtins__)
    before, sys.modules["__main__"] = sys.modules["__main__"], main
    try:
        exec(compile(Path(file).read_text(), file, "exec", dont_inherit=True), main.__dict__)
    finally:
        names.update(main.__dict__)
        sys.modules["__main__"] = before


@contextmanager
def _silent() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        yield


def _run_tests(file: str) -> None:
    for name, function in runpy.run_path(file, run_name="tests").items():
        if name.startswith("test_") and callable(function):
            for given in parameter_sets(function):
                _stops(partial(function, **given))


def _stops(run: Callable[[], Any]) -> str:
    """What ends a script before its end."""
    try:
        run()
    except SystemExit as left:
        return f"exit status {left.code}" if left.code not in (None, 0) else ""
    except Exception as error:
        return _said(error)
    return ""


def _said(error: BaseException) -> str:
    """The error with the script's line it came from."""
    if isinstance(error, MinitileError):
        return f"{type(error).__name__}: {error}"
    trace, line = error.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if str(Path(__file__).parent) not in name and not name.startswith("<"):
            line = f" ({os.path.basename(name)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{line}"


@contextmanager
def _script(file: str, args: Sequence[str]) -> Iterator[None]:
    """argv and the import path as of `python FILE args`."""
    argv, path = sys.argv, sys.path[:]
    here = str(Path(file).resolve().parent)
    sys.argv, sys.path[:0] = [file, *args], [here]
    known = {*sys.modules}
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, path
        for name in {*sys.modules} - known:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(here):
                del sys.modules[name]


@contextmanager
def _on_cpu(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    from minitile.tilelang.stand_in.cpu import on_cpu

    if find_spec("torch") is None:
        raise MinitileError("--cpu is for torch's tensors, and torch is not installed")
    with on_cpu():
        yield


__all__ = ["Any", "Record", "add_arguments", "compile_script", "main"]
