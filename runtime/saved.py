"""Compiled kernels on disk, which are loaded and launched without the compiler: `mt.load`, of what `k.save` wrote.

A file is a ZIP archive with `kernel.json` (the launch as `LaunchInfo.to_json` has it, and what it is for) and the code:
`kernel.ptx` and, where there was an assembler, `kernel.cubin`; or `kernel.hsaco`. It holds machine code, so it is to be
trusted as a shared library is.

Source: CUDA C++ Programming Guide, "Binary Compatibility" (a cubin runs on devices of its major version and no smaller
minor one; of an architecture with a letter, on that alone).
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from . import cuda, hip
from .errors import ArgumentError
from .launch_info import LaunchInfo
from .launcher_base import BaseLauncher, Prepared

_FORMAT = 1
_DESCRIPTION = "kernel.json"
_LARGEST = 1 << 28  # bytes of one part
_PARTS = ("ptx", "cubin", "hsaco")


@dataclass(frozen=True)
class Saved:
    """A compiled kernel without its compiler. device: "cuda" or "rocm"; arch: what the code is for (sm_90a, gfx942);
    images: the code by kind, "ptx" and "cubin", or "hsaco"; jit: how the driver compiles PTX; name: the kernel's;
    defaults: numbers for scalars that a call leaves out."""

    name: str
    device: str
    arch: str
    launch: LaunchInfo
    images: Mapping[str, bytes]
    jit: cuda.JitOptions = field(default_factory=cuda.JitOptions)
    defaults: Mapping[str, int | float] = field(default_factory=dict)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Raises OSError where the file cannot be written."""
        about = {"format": _FORMAT, "name": self.name, "device": self.device, "arch": self.arch}
        about |= {"jit": asdict(self.jit), "launch": self.launch.to_json(), "defaults": dict(self.defaults)}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(_DESCRIPTION, json.dumps(about, indent=1) + "\n")
            for kind, image in self.images.items():
                archive.writestr(f"kernel.{kind}", image)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Saved:
        """Raises OSError where there is no such file, ArgumentError where it is none of `write`'s."""
        shown = os.fspath(path)
        try:
            with zipfile.ZipFile(path) as archive:
                about = json.loads(_part(archive, _DESCRIPTION))
                if about["format"] != _FORMAT:
                    raise ArgumentError(
                        f"{shown} has the format {about['format']}, and this minitile reads {_FORMAT}",
                        "save the kernel with this version",
                    )
                names = {*archive.namelist()}
                images = {kind: _part(archive, f"kernel.{kind}") for kind in _PARTS if f"kernel.{kind}" in names}
            launch, jit = LaunchInfo.from_json(about["launch"]), cuda.JitOptions(**about["jit"])
            defaults = dict(about.get("defaults", {}))
            saved = Saved(about["name"], about["device"], about["arch"], launch, images, jit, defaults)
        except (zipfile.BadZipFile, KeyError, TypeError, ValueError, AttributeError) as error:
            raise ArgumentError(
                f"{shown} is no saved kernel: {type(error).__name__}: {error}", "k.save(path) makes one"
            ) from None
        if not images or saved.device not in ("cuda", "rocm"):
            raise ArgumentError(f"{shown} is no saved kernel: it has no code for a GPU", "k.save(path) makes one")
        return saved

    def launcher(self) -> BaseLauncher:
        """Raises UnavailableError where there is no driver."""
        if self.device == "rocm":
            return hip.Launcher(self.launch, self._code_object)
        return cuda.Launcher(self.launch, self._image, self.jit)

    def _image(self, device: cuda.DeviceInfo) -> bytes:
        """The cubin where it runs on the device, else the text for the driver's own compiler."""
        if "cubin" in self.images and runs_on(self.arch, device.capability):
            return self.images["cubin"]
        if "ptx" in self.images and (self.arch[-1].isdigit() or runs_on(self.arch, device.capability)):
            return self.images["ptx"]
        raise ArgumentError(f"{self.name} was compiled for {self.arch}, and {device.name} is {device.arch}")

    def _code_object(self, device: hip.DeviceInfo) -> bytes:
        if device.arch != self.arch:
            raise ArgumentError(f"{self.name} was compiled for {self.arch}, and GPU {device.index} is {device.arch}")
        return self.images["hsaco"]


def capability_of(arch: str) -> tuple[tuple[int, int], bool]:
    """The compute capability that `arch` names, and whether it is for that alone. Raises ArgumentError."""
    found = re.fullmatch(r"sm_(\d+)(\d)([a-z]?)", arch)
    if found is None:
        raise ArgumentError(f"{arch} is no architecture of NVIDIA's")
    return (int(found[1]), int(found[2])), found[3] == "a"


def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Whether a cubin for `arch` runs on devices of that compute capability."""
    named, only = capability_of(arch)
    return named == capability if only else named[0] == capability[0] and named[1] <= capability[1]


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > _LARGEST:
        raise ValueError(f"{name} is too large")
    return archive.read(name)


class LoadedKernel:
    """A kernel from a file. Call it on GPU arrays: the run-time arguments of its signature, and behind them the tensors
    that a call of the compiler's kernel would make itself (`T.empty`), by position or name. Scalars with a default may
    be left out.

    Attributes:
        launch_info: grid, block, shared bytes, argument layout: plain data
        saved: what stood in the file
    """

    def __init__(self, saved: Saved) -> None:
        self.saved = saved
        self.launch_info = saved.launch
        self.__name__ = saved.name
        self._launcher: BaseLauncher | None = None

    def __repr__(self) -> str:
        return f"<minitile.LoadedKernel {self.__name__}({', '.join(self._names)}) for {self.saved.arch}>"

    def __reduce__(self) -> tuple[type[LoadedKernel], tuple[Saved]]:
        return LoadedKernel, (self.saved,)

    def __call__(self, *args: Any, **named: Any) -> None:
        """Launches on the arrays' device and current stream. Raises ArgumentError for what does not fit,
        UnavailableError without a GPU, DriverError (all of minitile.runtime.errors)."""
        launcher = self.launcher
        launcher.launch_checked(*launcher.bind(*self._ordered(args, named)))

    def prepare(self, *args: Any, **named: Any) -> Prepared:
        """A launch on these very arrays, ready to be repeated by calling it."""
        return self.launcher.prepare(*self._ordered(args, named))

    @property
    def launcher(self) -> BaseLauncher:
        """Made on first use."""
        if self._launcher is None:
            self._launcher = self.saved.launcher()
        return self._launcher

    @property
    def _names(self) -> list[str]:
        return [a.name for a in self.launch_info.args]

    def _ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        rest = self._names[len(args) :]
        given = {**{n: x for n, x in self.saved.defaults.items() if n in rest}, **named}
        if {*rest} == {*given}:
            return (*args, *(given[n] for n in rest))
        if not named:
            return args  # the launcher says how many there are
        raise ArgumentError(f"{self.__name__} takes {', '.join(self._names)}; by name {', '.join(named)} are given")


def load(path: str | os.PathLike[str]) -> LoadedKernel:
    """The kernel that `k.save(path)` wrote; the compiler is not imported, and not needed.

    Args:
        path: of the file.

    Returns:
        The kernel, to be called on GPU arrays.

    Raises:
        OSError: the file cannot be read.
        ArgumentError: it is no saved kernel (`minitile.runtime.errors`).
    """
    return LoadedKernel(Saved.read(path))
