"""The programs that make a cubin of PTX text, and which one a text needs.

nvJitLink works in this process and compiles every text as relocatable code, to be linked with other units; it lets no
option change that. Such code may meet callers and callees that are not in the text, at the price of

    setmaxnreg is ignored (note C7504): a kernel that counts on it spills, and its wgmmas go in single file (C7511)
    division and square root are calls of a subroutine: beside one, all wgmmas go in single file (C7509)
    registers are not what occupancy wants: see more_blocks.py

A `ptxas` program compiles whole programs and does neither. So:

    the text has no wgmma and no setmaxnreg   nvJitLink; where that is missing, ptxas
    the text has one                          ptxas; where that is missing, nvJitLink, which may say what was lost

On a GPU there is a third: the driver compiles PTX that it loads as a whole program. `minitile.driver.dispatch` uses it
where no assembler found here honours a text.

A ptxas is sought in `$MINITILE_PTXAS` (a path, and then nowhere else: one that is none is an error; 0: none at all), on
PATH, in `$CUDA_HOME/bin` and `$CUDA_PATH/bin`,
in the wheels of nvcc and in Triton's; the first that is recent enough for the text is used.

Sources: the nvJitLink documentation (options, error codes); `ptxas --help` of 12.9 and 13.5; the release notes of the
PTX ISA (which release of CUDA brought which version of PTX); what nvJitLink 13.5 answers to
-ewp, and its notes on the kernels of examples/.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from minitile.driver.processes import HelperDied, run, scratch
from minitile.ir.diagnostics import MinitileError, TargetError

INSTALL_HINT = "install the assembler: pip install 'minitile[cuda]' (nvidia-nvjitlink and cuda-python)"
PTXAS_HINT = "put a ptxas on PATH or say where it is by MINITILE_PTXAS; pip install nvidia-cuda-nvcc brings one"


class AssemblerMissing(MinitileError):
    """nvJitLink or its Python binding is not installed: the driver's own JIT can still load PTX."""


class Rejected(Exception):
    """The assembler refuses the text; its argument is the log."""


@dataclass(frozen=True, slots=True)
class AssembleOptions:
    """How to assemble: `opt_level` 0–3; `line_info` keeps the `.loc` lines for profilers and compute-sanitizer;
    `max_registers` per thread, None for the kernel's own limit."""

    opt_level: int = 3
    line_info: bool = True
    max_registers: int | None = None

    def flags(self, arch: str) -> list[str]:
        """What nvJitLink and ptxas share."""
        flags = [f"-arch={arch}", f"-O{self.opt_level}"]
        if self.line_info:
            flags.append("-lineinfo")
        if self.max_registers is not None:
            flags.append(f"-maxrregcount={self.max_registers}")
        return flags


class Assembler(Protocol):
    @property
    def name(self) -> str:
        """With its version: "nvJitLink 13.5"."""

    @property
    def identity(self) -> str:
        """Which it is, to the build: what may give another cubin has another one."""

    @property
    def relocatable(self) -> bool:
        """Whether what it makes is relocatable code, of no whole program."""

    def honours(self, ptx: str) -> bool:
        """Whether it is the right one for the text: whole programs where the text needs that."""

    def run(self, ptx: str, arch: str, options: AssembleOptions) -> tuple[bytes, str]:
        """The cubin and the log with the counts of `-v`. Raises Rejected, and TargetError for an unknown `arch`."""


def needs_whole_program(ptx: str) -> bool:
    """Whether the text has what suffers in relocatable code."""
    if "setmaxnreg" not in ptx and "wgmma" not in ptx:  # most; the search below takes longer
        return False
    return re.search(r"^\s*(?:@\S+\s+)?(?:setmaxnreg|wgmma)\b", ptx, re.MULTILINE) is not None


def assembler_for(ptx: str) -> Assembler:
    """The first in this module's order that is there. Raises AssemblerMissing."""
    if needs_whole_program(ptx) and (ptxas := find_ptxas(ptx)) is not None:
        return ptxas
    try:
        return NvJitLink(_binding())
    except AssemblerMissing:
        if (ptxas := find_ptxas(ptx)) is not None:
            return ptxas
        raise


# nvJitLink -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NvJitLink:
    """nvJitLink by its Python binding `link`."""

    link: Any

    @property
    def name(self) -> str:
        return f"nvJitLink {'.'.join(map(str, self.link.version()))}"

    @property
    def identity(self) -> str:
        return f"{self.name}: {_wheel()}"

    @property
    def relocatable(self) -> bool:
        return True

    def honours(self, ptx: str) -> bool:
        return not needs_whole_program(ptx)

    def run(self, ptx: str, arch: str, options: AssembleOptions) -> tuple[bytes, str]:
        link = self.link
        # A hit in nvJitLink's own cache would come back without the counts of -v.
        flags = [*options.flags(arch), "-Xptxas=-v", "-no-cache"]
        text = ptx.encode() + b"\0"
        try:
            handle = link.create(len(flags), flags)
        except link.nvJitLinkError as error:
            raise TargetError(
                f"{self.name} refuses {' '.join(flags)}: {error}",
                hint="a newer nvidia-nvjitlink may know this architecture",
            ) from None
        try:
            try:
                link.add_data(handle, link.InputType.PTX, text, len(text), "kernel.ptx")
                link.complete(handle)
            except link.nvJitLinkError:
                raise Rejected(self._text(handle, "error")) from None
            cubin = bytearray(link.get_linked_cubin_size(handle))
            link.get_linked_cubin(handle, cubin)
            return bytes(cubin), self._text(handle, "info")
        finally:
            link.destroy(handle)

    def _text(self, handle: Any, which: str) -> str:
        """The "info" or "error" log."""
        size = getattr(self.link, f"get_{which}_log_size")(handle)
        if size <= 1:
            return ""
        log = bytearray(size)
        getattr(self.link, f"get_{which}_log")(handle, log)
        return log.rstrip(b"\0").decode(errors="replace")


@cache
def _wheel() -> str:
    """The package that nvJitLink is installed by, which knows the build; empty where it came in another way."""
    try:
        return importlib.metadata.version("nvidia-nvjitlink")
    except importlib.metadata.PackageNotFoundError:
        return ""


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


# ptxas ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ptxas:
    """The program at `path`, of CUDA's `release`; `build` is all that it says of its version."""

    path: str
    release: tuple[int, int]
    build: str = ""

    @property
    def name(self) -> str:
        return f"ptxas {self.release[0]}.{self.release[1]}"

    @property
    def identity(self) -> str:
        return f"{self.name}: {self.build}"

    @property
    def ptx_version(self) -> tuple[int, int]:
        """A version of PTX that it understands: 12.0 brought 8.0, up to 12.5 with 8.5; 12.6 kept that, and so each
        later minor release is one behind. 13.0 brought 9.0."""
        major, minor = self.release
        return major - 4, minor - 1 if major == 12 and minor > 5 else minor

    @property
    def relocatable(self) -> bool:
        return False

    def honours(self, ptx: str) -> bool:
        return True

    def run(self, ptx: str, arch: str, options: AssembleOptions) -> tuple[bytes, str]:
        with scratch() as folder:
            text, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
            text.write_text(ptx, encoding="utf-8")
            try:
                done = run([self.path, *options.flags(arch), "-v", str(text), "-o", str(cubin)])
            except OSError as error:
                raise TargetError(f"{self.path} does not run: {error}", hint=PTXAS_HINT) from None
            log = done.output + done.errors
            if "is not defined for option 'gpu-name'" in log:
                raise TargetError(f"{self.name} does not know {arch}", hint="a newer ptxas may")
            if done.code != 0:
                raise Rejected(log)
            return cubin.read_bytes(), log


def find_ptxas(ptx: str = "") -> Ptxas | None:
    """The first ptxas that is recent enough for the text's `.version`."""
    found = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    wanted = (int(found[1]), int(found[2])) if found else (0, 0)
    for path in _places():
        said = _asked(path)
        if said is not None and (ptxas := Ptxas(path, *said)).ptx_version >= wanted:
            return ptxas
    return None


def _asked(path: str) -> tuple[tuple[int, int], str] | None:
    """What the program at `path` says of itself; None if there is none that runs."""
    try:
        about = os.stat(path)
    except OSError:
        return None
    return _version(path, about.st_size, about.st_mtime_ns) if os.access(path, os.X_OK) else None


def _places() -> Iterator[str]:
    """Where a ptxas may be, best first."""
    chosen = os.environ.get("MINITILE_PTXAS")
    if chosen is not None:
        if chosen != "0":
            _check_chosen(chosen)
            yield chosen
        return
    if (path := shutil.which("ptxas")) is not None:
        yield path
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if folder := os.environ.get(variable):
            yield os.path.join(folder, "bin", "ptxas")
    for package, places in (
        ("nvidia", ("cu*/bin/ptxas", "cuda_nvcc/bin/ptxas")),
        ("triton", ("backends/nvidia/bin/ptxas",)),
    ):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for place in places:
                yield from map(str, sorted(Path(folder).glob(place), reverse=True))


def _check_chosen(path: str) -> None:
    """A program that the user names is the one to use: to go on without it would hide what is wrong with it. Raises
    TargetError."""
    if _asked(path) is not None:
        return
    wrong = "there is no such file"
    if os.path.isfile(path):
        wrong = "it says no release of CUDA" if os.access(path, os.X_OK) else "it is not executable"
    hint = "give the path of a ptxas, or 0 for none, or unset it: then PATH and other places are searched"
    raise TargetError(f"MINITILE_PTXAS={path}: {wrong}", hint=hint)


@lru_cache(maxsize=64)
def _version(path: str, size: int, changed: int) -> tuple[tuple[int, int], str] | None:
    """CUDA's release that the program at `path` says it is of, and all that it says; None if it does not run. It is
    asked again when the file's size or its time of change is another."""
    try:
        said = run([path, "--version"]).output
    except (OSError, HelperDied):
        return None
    found = re.search(r"release (\d+)\.(\d+)", said)
    return ((int(found[1]), int(found[2])), said.strip()) if found else None
