"""LLVM IR to assembly text and object files: by LLVM in a process of its own, kept in the on-disk cache.

The process (worker.py; minitile/driver/processes.py starts, asks and ends it) is started at the first compilation and
stays for the next ones; starting it takes a quarter of a second. When it aborts, which is what LLVM does about an
instruction that it cannot select, the caller gets an InternalError with LLVM's words, and the next compilation starts
another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import re
import signal
from functools import cache
from pathlib import Path

from minitile.backends.amd.verify.check import check
from minitile.driver.cache import Entry, Kind, default_cache, make_key
from minitile.driver.elf import is_whole
from minitile.driver.processes import Helper, HelperDied, HelperRefused
from minitile.hardware import Target
from minitile.ir.diagnostics import InternalError, TargetError

OLDEST = (0, 50)  # the first llvmlite with LLVM 22, which knows gfx950 well


def is_assembly(data: bytes) -> bool:
    """Whether a blob can be assembly text for one of AMD's GPUs."""
    try:
        return ".amdgcn_target" in data.decode()
    except UnicodeDecodeError:
        return False


KINDS = {
    "assembly": Kind("AMD assembly", {}, is_assembly),
    "object": Kind("AMD object file", {}, is_whole),
}


def generate(llvm: str, target: Target) -> str:
    """The assembly text, checked (see check.py). Raises TargetError where llvmlite is not installed, InternalError
    where LLVM refuses the text or gives something that must not run."""
    return compiled(llvm, target, "assembly").decode()


def compiled(llvm: str, target: Target, emit: str) -> bytes:
    """`emit`: "assembly" or "object"."""
    version = llvmlite_version(target)
    store = default_cache()
    kind = KINDS[emit]
    key = None
    if store is not None:
        name = re.search(r"^define amdgpu_kernel void @\"?([\w.$]+)", llvm, re.MULTILINE)
        named = name[1] if name else ""
        key = make_key(kind, llvm=llvm, target=target.arch, llvmlite=version, build=_build(), name=named)
    if store is not None and key is not None and (entry := store.load(key)) is not None:
        return entry.blob
    result = ask(llvm, target.arch, emit)
    if not kind.whole(result):
        raise InternalError(f"LLVM's {emit} of {len(result)} bytes is not whole")
    if emit == "assembly":
        check(result.decode(), target)
    if store is not None and key is not None:
        store.store(key, Entry({}, result))
    return result


def llvmlite_version(target: Target) -> str:
    """Raises TargetError where there is none that will do."""
    hint = "pip install 'llvmlite>=0.50', or minitile[amd]"
    if not _installed():
        raise TargetError(f"compiling for {target} needs llvmlite, which is not installed", hint=hint)
    version = _version()
    numbers = tuple(int(n) for n in version.split(".")[:2] if n.isdigit())
    if numbers < OLDEST:
        raise TargetError(f"compiling for {target} needs llvmlite 0.50 or newer, not {version}", hint=hint)
    return version


@cache
def _version() -> str:
    return importlib.metadata.version("llvmlite")


@cache
def _build() -> str:
    """Which LLVM llvmlite brings, without loading it: its wheel's digests of its files, and the library's size."""
    digest = hashlib.sha256()
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        digest.update((importlib.metadata.distribution("llvmlite").read_text("RECORD") or "").encode())
    found = importlib.util.find_spec("llvmlite")
    for folder in (found.submodule_search_locations or ()) if found else ():
        for library in sorted(Path(folder, "binding").glob("*llvmlite*")):
            digest.update(f"{library.name} {library.stat().st_size}\n".encode())
    return digest.hexdigest()


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
        if error.code == -signal.SIGKILL:  # from outside: not of this text
            raise
        words = " ".join((telling or lines)[:3]) or error.message
        raise InternalError(f"LLVM gave up on the kernel: {words}") from None


@cache
def _worker() -> Helper:
    return Helper(Path(__file__).with_name("worker.py"), "LLVM")
