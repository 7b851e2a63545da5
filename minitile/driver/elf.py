"""Whether an ELF file is whole: what its header says is there lies within it.

Assemblers and linkers give ELF files (objects, cubins, code objects). One that was cut off, by a full disk or by a
process that was ended, must not be kept. Source: System V ABI, ELF-64 object file format.
"""

from __future__ import annotations

import struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NO_BITS = 8  # SHT_NOBITS: takes no bytes of the file


def is_whole(data: bytes) -> bool:
    """Of a 64-bit, little-endian ELF file."""
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        return False
    _, _, _, _, _, segments, sections, _, _, width, count, size, number, _ = _HEADER.unpack_from(data)
    if not (_within(data, segments, count, width, _SEGMENT) and _within(data, sections, number, size, _SECTION)):
        return False
    for at in range(segments, segments + count * width, width or 1):
        _, _, offset, _, _, length, _, _ = _SEGMENT.unpack_from(data, at)
        if offset + length > len(data):
            return False
    for at in range(sections, sections + number * size, size or 1):
        _, kind, _, _, offset, length, *_ = _SECTION.unpack_from(data, at)
        if kind != _NO_BITS and offset + length > len(data):
            return False
    return True


def _within(data: bytes, start: int, count: int, width: int, form: struct.Struct) -> bool:
    return count == 0 or (width >= form.size and start + count * width <= len(data))
