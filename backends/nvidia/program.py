"""PTX text on its way to a GPU: assembled for the device, or left to the driver's JIT; cubins kept on disk."""

from __future__ import annotations

import json
import logging
import operator
import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from minitile.backends.base import Costs, Program
from minitile.backends.nvidia.assemble import (
    Assembled,
    AssembleOptions,
    AssemblerMissing,
    assemble,
    assembler_for,
    assembler_identity,
    by_driver,
    remarks,
)
from minitile.driver import cache
from minitile.driver.cache import Entry, Kind, default_cache, make_key
from minitile.driver.elf import is_whole
from minitile.runtime import cuda
from minitile.runtime.saved import Saved

if TYPE_CHECKING:
    from minitile.runtime.launch_info import LaunchInfo


_LOG = logging.getLogger("minitile.assemble")


class PtxProgram(Program):
    """One PTX text. `arch` is what `binary` is for; "" where only devices say.

    `cubins` fills with what the assembler said for each architecture that the text was assembled for, `running` with
    what was launched, and `remarks` with what there is to know of either.
    """

    def __init__(self, ptx: str, arch: str = "", options: AssembleOptions | None = None) -> None:
        super().__init__(ptx)
        self.arch = arch
        self.options = options or AssembleOptions()
        self.cubins: dict[str, Assembled] = {}
        self.running: dict[str, Assembled] = {}
        self.remarks: list[str] = []

    def launcher(self, info: LaunchInfo) -> cuda.Launcher:
        return cuda.Launcher(info, self.image, self.jit(), self.compiled_by_driver)

    def jit(self) -> cuda.JitOptions:
        o = self.options
        return cuda.JitOptions(4 if o.opt_level == 3 else o.opt_level, o.line_info, o.max_registers)

    def saved(self, name: str, info: LaunchInfo) -> Saved:
        """With the text, and with the cubin where an assembler does all that the text asks for."""
        found = {"ptx": self.text.encode()}
        try:
            if assembler_for(self.text).honours(self.text):
                found["cubin"] = self.binary
        except AssemblerMissing:
            pass
        return Saved(name, "cuda", self.arch, info, found, self.jit())

    def image(self, device: cuda.DeviceInfo) -> bytes:
        """The cubin; the text, for the driver's JIT, where there is no assembler that does all that the text asks."""
        arch = device_arch(self.text, device.arch)
        try:
            if assembler_for(self.text).honours(self.text):
                done = self.running[arch] = self.assemble(arch)
                return done.cubin
        except AssemblerMissing:
            pass
        return self.text.encode()

    def compiled_by_driver(self, device: cuda.DeviceInfo, info: cuda.FunctionInfo, log: str) -> None:
        arch = device_arch(self.text, device.arch)
        log = remembered_log(self.text, arch, self.options, log)
        done = by_driver(arch, info.registers, info.local, info.shared, log)
        self._remark(done)
        self.running[arch] = done

    def assemble(self, arch: str) -> Assembled:
        """The cubin for `arch` with its costs, from the cache or by the assembler that the text needs. Remarks what
        costs speed, or raises AssembleError; see assemble.py."""
        if arch not in self.cubins:
            start = time.perf_counter()
            done = assemble_cached(self.text, arch, self.options)
            spent = (time.perf_counter() - start) * 1e3
            if arch == self.arch:
                self.timings["assemble"] = spent
            spilled = done.spill_stores + done.spill_loads
            what = entry_of(self.text), arch, done.assembler, spent, done.registers, spilled
            _LOG.info("%s for %s by %s: %.1f ms, %d registers, %d bytes spilled", *what)
            self._remark(done)
            self.cubins[arch] = done
        return self.cubins[arch]

    @property
    def assembled(self) -> Assembled:
        return self.assemble(self.arch)

    @property
    def binary(self) -> bytes:
        return self.assembled.cubin

    def costs_on(self, arch: str) -> Assembled:
        """What runs on `arch`, or would: the driver's code where it has compiled the kernel, else the cubin."""
        return self.running.get(arch) or self.assemble(arch)

    def costs(self) -> Costs:
        done = self.costs_on(self.arch)
        return Costs(done.registers, done.spill_stores + done.spill_loads)

    def known_costs(self) -> Costs | None:
        return self.costs() if self.arch in self.cubins else None

    def prebuilt(self) -> Assembled | None:
        """Nothing where no assembler is installed; what is wrong with a text shows in the process that launches it."""
        try:
            return assemble_cached(self.text, self.arch, self.options)
        except AssemblerMissing:
            return None

    def adopt(self, prebuilt: Assembled) -> None:
        self.cubins[self.arch] = prebuilt

    def summary(self) -> str:
        try:
            found = self.assembled
        except AssemblerMissing as error:
            return f"not: {error.message}; {error.hint}"
        spilled = found.spill_stores + found.spill_loads
        costs = f"{found.registers} registers per thread, {spilled} bytes spilled"
        return f"{costs}, cubin of {len(found.cubin)} bytes for {found.arch} by {found.assembler}"

    def _remark(self, done: Assembled) -> None:
        for text in remarks(done, self.text):
            if text not in self.remarks:
                self.remarks.append(text)
                self.remark(text)


def entry_of(ptx: str) -> str:
    """The name of a text's kernel, for people; the first of several."""
    found = re.search(r"\.entry\s+([\w$]+)", ptx)
    return found[1] if found else ""


def device_arch(ptx: str, arch: str) -> str:
    """What to assemble `ptx` for on a device of architecture `arch`: that, except where the text is for one
    architecture alone (sm_90a)."""
    found = re.search(r"^\s*\.target\s+(sm_\d+[af])\b", ptx, re.MULTILINE)
    return found.group(1) if found else arch


_COSTS = ("registers", "spill_stores", "spill_loads", "stack", "shared")
CUBIN = Kind(
    "cubin",
    {
        "arch": cache.text,
        "assembler": cache.text,
        "honoured": cache.flag,
        **dict.fromkeys(_COSTS, cache.count),
        "warnings": cache.texts,
        "log": cache.text,
        "seconds": cache.positive,
    },
    is_whole,
)
DRIVERS_LOG = Kind("driver's log", {"log": cache.text}, operator.not_)


def assemble_cached(ptx: str, arch: str, options: AssembleOptions) -> Assembled:
    """As `assemble`, kept on disk: by the text, the architecture, the options and the assembler with its version."""
    store = default_cache()
    if store is None:
        return assemble(ptx, arch, options)
    key = make_key(
        CUBIN,
        ptx=ptx,
        arch=arch,
        options=json.dumps(asdict(options)),
        assembler=assembler_identity(ptx) or "",
        name=entry_of(ptx),
    )
    entry = store.load(key)
    if entry is not None:
        return Assembled(cubin=entry.blob, **{**entry.meta, "warnings": tuple(entry.meta["warnings"])})
    assembled = assemble(ptx, arch, options)
    meta = {name: value for name, value in asdict(assembled).items() if name != "cubin"}
    store.store(key, Entry({**meta, "warnings": list(assembled.warnings)}, assembled.cubin))
    return assembled


def remembered_log(ptx: str, arch: str, options: AssembleOptions, log: str) -> str:
    """What the driver said when it compiled this text: it has a cache of its own, and is silent when it finds a text
    there. So its words are kept on disk as well."""
    store = default_cache()
    if store is None:
        return log
    version = int(cuda.call("cuDriverGetVersion"))
    how = json.dumps(asdict(options))
    key = make_key(DRIVERS_LOG, ptx=ptx, arch=arch, options=how, driver=str(version), name=entry_of(ptx))
    if log:
        store.store(key, Entry({"log": log}, b""))
        return log
    entry = store.load(key)
    return str(entry.meta["log"]) if entry is not None else ""
