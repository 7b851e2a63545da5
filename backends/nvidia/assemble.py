"""PTX text to a cubin, in process, by nvJitLink; no GPU and no driver needed.

`assemble` returns the cubin with what ptxas says of it (`-Xptxas=-v`): registers, spills, stack, shared memory. What
ptxas rejects becomes an `AssembleError` that names the PTX line and, through the `.loc` before it, the user's own line.

Sources: the nvJitLink documentation (options, error codes); the PTX ISA 8.3, 11.5 (`.loc`, `.file`); the form of the
log was read from nvJitLink 13.0 and 13.5.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from minitile.ir.diagnostics import Location, MinitileError, TargetError

INSTALL_HINT = "install the assembler: pip install 'minitile[cuda]' (nvidia-nvjitlink and cuda-python)"


class AssembleError(MinitileError):
    """ptxas refused the PTX. `log` is its whole output, `ptx_line` the first line it names (1-based; 0: none)."""

    def __init__(self, message: str, log: str, ptx_line: int = 0, loc: Location | None = None, hint: str = "") -> None:
        super().__init__(message, loc, hint)
        self.log = log
        self.ptx_line = ptx_line


class AssemblerMissing(MinitileError):
    """nvJitLink or its Python binding is not installed: the driver's own JIT can still load PTX."""


@dataclass(frozen=True, slots=True)
class AssembleOptions:
    """How to assemble: `opt_level` 0–3; `line_info` keeps the `.loc` lines for profilers and compute-sanitizer;
    `max_registers` per thread, None for the kernel's own limit."""

    opt_level: int = 3
    line_info: bool = True
    max_registers: int | None = None

    def flags(self, arch: str) -> list[str]:
        # A hit in nvJitLink's own cache would come back without the counts of -v.
        flags = [f"-arch={arch}", f"-O{self.opt_level}", "-Xptxas=-v", "-no-cache"]
        if self.line_info:
            flags.append("-lineinfo")
        if self.max_registers is not None:
            flags.append(f"-maxrregcount={self.max_registers}")
        return flags


@dataclass(frozen=True, slots=True)
class Assembled:
    """A cubin and its costs. Registers are per thread; `spill_stores`, `spill_loads` and `stack` are bytes per thread;
    `shared` is static shared memory in bytes. With several entries in one PTX text, each is the largest of them.
    `warnings` are ptxas' own, with the advisory C75xx notes (a wgmma that was serialised, a setmaxnreg ignored)."""

    cubin: bytes
    arch: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    warnings: tuple[str, ...]
    log: str
    seconds: float


def nvjitlink_version() -> tuple[int, int] | None:
    """(major, minor) of the nvJitLink found, None when there is none."""
    try:
        major, minor = _binding().version()
    except AssemblerMissing:
        return None
    return int(major), int(minor)


def assemble(ptx: str, arch: str, options: AssembleOptions | None = None) -> Assembled:
    """Assembles `ptx` for `arch` ("sm_80", "sm_90a", …: the PTX's own target or a later one it is compatible with).

    Raises AssembleError (ptxas refuses the text), TargetError (this nvJitLink does not know `arch`) and
    AssemblerMissing (not installed).
    """
    link = _binding()
    flags = (options or AssembleOptions()).flags(arch)
    text = ptx.encode() + b"\0"
    started = time.perf_counter()
    try:
        handle = link.create(len(flags), flags)
    except link.nvJitLinkError as error:
        raise TargetError(
            f"nvJitLink {'.'.join(map(str, link.version()))} refuses {' '.join(flags)}: {error}",
            hint="a newer nvidia-nvjitlink may know this architecture",
        ) from None
    try:
        try:
            link.add_data(handle, link.InputType.PTX, text, len(text), "kernel.ptx")
            link.complete(handle)
        except link.nvJitLinkError:
            raise _error(ptx, arch, _text(link, handle, "error")) from None
        cubin = bytearray(link.get_linked_cubin_size(handle))
        link.get_linked_cubin(handle, cubin)
        log = _text(link, handle, "info")
    finally:
        link.destroy(handle)
    return Assembled(bytes(cubin), arch, **read_log(log), log=log, seconds=time.perf_counter() - started)


_USED = re.compile(r"ptxas info\s*: Used (\d+) registers(?:.*?, (\d+)(?:\+\d+)? bytes smem)?")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_WARNING = re.compile(r"^(?:ptxas )?.*(?:\bwarning\b|\(C75\d\d\)).*$", re.MULTILINE)


def read_log(log: str) -> dict[str, Any]:
    """The counts in the output of `ptxas -v`, by their names in `Assembled`."""
    used = [(int(regs), int(shared or 0)) for regs, shared in _USED.findall(log)]
    frames = [tuple(map(int, found)) for found in _FRAME.findall(log)]
    if not used or not frames:
        raise AssembleError("the assembler's log has no register counts", log)
    return {
        "registers": max(regs for regs, _ in used),
        "shared": max(shared for _, shared in used),
        "stack": max(frame[0] for frame in frames),
        "spill_stores": max(frame[1] for frame in frames),
        "spill_loads": max(frame[2] for frame in frames),
        "warnings": tuple(line.strip() for line in _WARNING.findall(log)),
    }


_AT_LINE = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_FATAL = re.compile(r"(?:error|fatal)\s*: (.*)")


def _error(ptx: str, arch: str, log: str) -> AssembleError:
    """The first complaints of ptxas, each under its PTX line."""
    lines = ptx.splitlines()
    complaints = [(int(number), text.strip()) for number, text in _AT_LINE.findall(log)]
    if not complaints:
        fatal = _FATAL.search(log)
        reason = fatal.group(1).strip() if fatal else log.strip() or "no reason given"
        return AssembleError(f"the PTX cannot be assembled for {arch}: {reason}", log)
    shown = []
    for number, text in complaints[:5]:
        source = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        shown.append(f"  PTX line {number}: {text}\n    {source}")
    if len(complaints) > 5:
        shown.append(f"  and {len(complaints) - 5} more")
    first = complaints[0][0]
    return AssembleError(
        f"the PTX cannot be assembled for {arch}:\n" + "\n".join(shown), log, first, source_of(ptx, first)
    )


def source_of(ptx: str, line: int) -> Location | None:
    """The user's line that the PTX line `line` (1-based) came from: the last `.loc` at or before it."""
    files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', ptx, re.MULTILINE))
    for text in reversed(ptx.splitlines()[:line]):
        found = re.match(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)", text)
        if found and found.group(1) in files:
            return Location(files[found.group(1)], int(found.group(2)), max(0, int(found.group(3)) - 1))
    return None


def _text(link: Any, handle: Any, which: str) -> str:
    """nvJitLink's "info" or "error" log."""
    size = getattr(link, f"get_{which}_log_size")(handle)
    if size <= 1:
        return ""
    log = bytearray(size)
    getattr(link, f"get_{which}_log")(handle, log)
    return log.rstrip(b"\0").decode(errors="replace")


_loaded: Any = None


def _binding() -> Any:
    """cuda.bindings.nvjitlink with its library loaded, or AssemblerMissing."""
    global _loaded
    if _loaded is None:
        try:
            from cuda.bindings import nvjitlink

            nvjitlink.version()
        except Exception as error:  # ImportError; or the binding's own errors when it finds no library
            raise AssemblerMissing(
                f"no nvJitLink to assemble PTX with: {type(error).__name__}: {error}", hint=INSTALL_HINT
            ) from None
        _loaded = nvjitlink
    return _loaded
