"""What a code object (hsaco) says of itself: an ELF file for a GPU, read back to see that what was linked is what was
compiled, and can be loaded.

    header     machine 224, OS ABI 64 (HSA), the processor in the lowest byte of e_flags
    .kd        the kernel descriptor, 64 bytes: LDS, scratch and kernarg sizes, and where the code begins relative to
               itself; only a linked file has that
    note       "AMDGPU", type 32: the kernel's metadata as MessagePack

Sources: LLVM 22, "User Guide for AMDGPU Backend": ELF Code Object (header, e_flags), Note Records, Code Object V5
Metadata, Kernel Descriptor; the MessagePack specification; System V ABI, ELF-64 object file format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minitile.ir.diagnostics import InternalError

_MACHINE, _OS_ABI, _SHARED = 224, 64, 3  # EM_AMDGPU, ELFOSABI_AMDGPU_HSA, ET_DYN
PROCESSORS = {0x4C: "gfx942", 0x4F: "gfx950"}  # EF_AMDGPU_MACH_AMDGCN_*
_SYMBOLS, _NOTE = (2, 11), 7  # SHT_SYMTAB and SHT_DYNSYM, SHT_NOTE
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DESCRIPTOR = struct.Struct("<III4xq")  # LDS, scratch, kernarg bytes; code entry


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the kernel: bytes from the start of the kernarg segment, bytes, "global_buffer" or "by_value"."""

    name: str
    offset: int
    size: int
    kind: str


@dataclass(frozen=True, slots=True)
class CodeObject:
    """One kernel's code object. arch: the processor. version: of the code object. Sizes in bytes: kernarg, lds (of a
    workgroup), scratch (of a lane); vgprs, sgprs and spills by lane or wave; threads: of a workgroup at most."""

    arch: str
    version: int
    entry: str
    arguments: tuple[Argument, ...]
    kernarg: int
    lds: int
    scratch: int
    vgprs: int
    sgprs: int
    spills: int
    threads: int


def read_code_object(data: bytes) -> CodeObject:
    """Raises InternalError for what is not the linked code object of one kernel, or contradicts itself."""
    try:
        return _read(data)
    except (struct.error, IndexError, KeyError, ValueError, UnicodeDecodeError, StopIteration) as error:
        raise InternalError(f"the code object cannot be read back: {type(error).__name__}: {error}") from None


def _read(data: bytes) -> CodeObject:
    ident, kind, machine, _, _, _, table, flags, *_, size, count, _ = _HEADER.unpack_from(data)
    if ident[:6] != b"\x7fELF\x02\x01" or ident[7] != _OS_ABI or machine != _MACHINE or kind != _SHARED:
        raise ValueError("no ELF file of a GPU that a loader takes")
    arch = PROCESSORS[flags & 0xFF]
    sections = [_SECTION.unpack_from(data, table + n * size) for n in range(count)]
    metadata = next(m for s in sections if s[1] == _NOTE if (m := _metadata(data[s[4] : s[4] + s[5]])) is not None)
    (kernel,) = metadata["amdhsa.kernels"]
    if metadata["amdhsa.target"].partition(":")[0] != f"amdgcn-amd-amdhsa--{arch}":
        raise ValueError(f"its header says {arch}, its metadata {metadata['amdhsa.target']}")
    symbols = dict(_symbols(data, sections))
    entry, descriptor = symbols[kernel[".name"]], symbols[kernel[".symbol"]]
    lds, scratch, kernarg, code = _DESCRIPTOR.unpack_from(data, _file_offset(sections, descriptor[0]))
    if descriptor[1] != 64 or descriptor[0] % 64 or entry[0] % 256 or descriptor[0] + code != entry[0]:
        raise ValueError(f"its descriptor at {descriptor[0]:#x} does not lead to the code at {entry[0]:#x}")
    said = tuple(kernel[f".{name}_segment_fixed_size"] for name in ("group", "private"))
    if (*said, kernel[".kernarg_segment_size"]) != (lds, scratch, kernarg):
        raise ValueError("its metadata and its descriptor differ in sizes")
    return CodeObject(
        arch,
        ident[8] + 2,
        kernel[".name"],
        tuple(Argument(a[".name"], a[".offset"], a[".size"], a[".value_kind"]) for a in kernel.get(".args", ())),
        kernarg,
        lds,
        scratch,
        kernel[".vgpr_count"],
        kernel[".sgpr_count"],
        kernel[".vgpr_spill_count"] + kernel[".sgpr_spill_count"],
        kernel[".max_flat_workgroup_size"],
    )


def _symbols(data: bytes, sections: list[tuple[int, ...]]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Names with (address, size)."""
    for section in sections:
        if section[1] not in _SYMBOLS:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, _, _, _, value, size = _SYMBOL.unpack_from(data, at)
            yield data[names + name : data.index(b"\0", names + name)].decode(), (value, size)


def _file_offset(sections: list[tuple[int, ...]], address: int) -> int:
    return next(s[4] + address - s[3] for s in sections if s[2] & 2 and s[3] <= address < s[3] + s[5])


def _metadata(note: bytes) -> Any:
    """The metadata in a section of notes, None where it has none."""
    at = 0
    while at + 12 <= len(note):
        name, size, kind = struct.unpack_from("<3I", note, at)
        start = at + 12 + -(-name // 4) * 4
        if note[at + 12 : at + 12 + name] == b"AMDGPU\0" and kind == 32:
            return unpack(note[start : start + size])
        at = start + -(-size // 4) * 4
    return None


# MessagePack ----------------------------------------------------------------------------------------------------------

_NUMBERS = {0xCA: ">f", 0xCB: ">d"} | dict(enumerate((">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"), 0xCC))
_LENGTHS = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_COUNTS = {0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}
_CONSTANTS: Mapping[int, bool | None] = {0xC0: None, 0xC2: False, 0xC3: True}


def unpack(data: bytes) -> Any:
    """One value of MessagePack, without extension types. Raises ValueError for those and for what follows it."""
    value, end = _value(data, 0)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow a MessagePack value")
    return value


def _value(data: bytes, at: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if tag < 0x80 or tag >= 0xE0:
        return tag if tag < 0x80 else tag - 256, at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        (number,) = struct.unpack_from(_NUMBERS[tag], data, at)
        return number, at + struct.calcsize(_NUMBERS[tag])
    if tag in _LENGTHS or 0xA0 <= tag < 0xC0:
        length, at = _count(data, at, _LENGTHS.get(tag), tag & 31)
        if at + length > len(data):
            raise ValueError("a MessagePack string is cut off")
        text = data[at : at + length]
        return text if 0xC4 <= tag <= 0xC6 else text.decode(), at + length
    if tag in _COUNTS or tag < 0xA0:
        count, at = _count(data, at, _COUNTS.get(tag), tag & 15)
        is_map = tag < 0x90 or tag in (0xDE, 0xDF)
        items = []
        for _ in range(count * (2 if is_map else 1)):
            item, at = _value(data, at)
            items.append(item)
        return dict(zip(items[::2], items[1::2], strict=True)) if is_map else items, at
    raise ValueError(f"MessagePack's type {tag:#x} is not expected")


def _count(data: bytes, at: int, form: str | None, inline: int) -> tuple[int, int]:
    if form is None:
        return inline, at
    (count,) = struct.unpack_from(form, data, at)
    return count, at + struct.calcsize(form)
