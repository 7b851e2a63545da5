"""LLVM IR to assembly text and object files: by LLVM in a process of its own, kept in the on-disk cache.

The process (worker.py; minitile/processes.py starts, asks and ends it) is started at the first compilation and stays
for the next ones; starting it takes a quarter of a second. When it dies, which is what LLVM does about an instruction
that it cannot select, the caller gets an InternalError with LLVM's words, and the next compilation starts another one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import signal
from functools import cache
from pathlib import Path

from minitile.backends.amd.check import check
from minitile.cache import Entry, default_cache, make_key
from minitile.elf import is_whole
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.processes import Helper, HelperDied, HelperRefused
from minitile.target import Target

OLDEST = (0, 50)  # the first llvmlite with LLVM 22, which knows gfx950 well


def generate(llvm: str, target: Target) -> str:
    """The assembly text, checked (see check.py). Raises TargetError where llvmlite is not installed, InternalError
    where LLVM refuses the text or gives something that must not run."""
    return compiled(llvm, target, "assembly").decode()


def compiled(llvm: str, target: Target, emit: str) -> bytes:
    """`emit`: "assembly" or "object"."""
    version = llvmlite_version(target)
    store = default_cache()
    key = make_key("gcn", llvm, target.arch, emit, version) if store is not None else ""
    if store is not None and (entry := store.load(key)) is not None:
        return entry.blob
    result = ask(llvm, target.arch, emit)
    if emit == "assembly":
        check(result.decode(), target)
    elif not is_whole(result):
        raise InternalError(f"LLVM's object file of {len(result)} bytes is not whole")
    if store is not None:
        store.store(key, Entry({}, result))
    return result


def llvmlite_version(target: Target) -> str:
    """Raises TargetError where there is none that will do."""
    hint = "pip install 'llvmlite>=0.50', or minitile[amd]"
    if not _installed():
        raise TargetError(f"compiling for {target} needs llvmlite, which is not installed", hint=hint)
    version = importlib.metadata.version("llvmlite")
    numbers = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    if numbers < OLDEST:
        raise TargetError(f"compiling for {target} needs llvmlite 0.50 or newer, not {version}", hint=hint)
    return version


def _installed() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


def ask(llvm: str, cpu: str, emit: str) -> bytes:
    """LLVM's answer, whole. Raises InternalError where it refuses the text, or dies of it."""
    try:
        return _worker().ask({"cpu": cpu, "emit": emit}, llvm.encode())
    except HelperRefused as error:
        raise InternalError(f"LLVM refuses the kernel's text: {error.message}") from None
    except HelperDied as error:
        lines = [line for line in error.words.splitlines() if line.strip()]
        telling = [line for line in lines if "error" in line.lower() or "cannot" in line.lower()]
        if error.code == -signal.SIGKILL:  # somebody else's doing
            raise
        words = " ".join((telling or lines)[:3]) or error.message
        raise InternalError(f"LLVM gave up on the kernel: {words}") from None


@cache
def _worker() -> Helper:
    return Helper(Path(__file__).with_name("worker.py"), "LLVM")
