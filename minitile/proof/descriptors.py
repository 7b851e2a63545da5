"""Which bytes of shared memory a wgmma reads through a matrix descriptor (PTX ISA 8.3, 9.7.14.5.1).

Bits 0-13: start address / 16; 16-29 and 32-45: leading and stride byte offset / 16; 49-51: base offset; 62-63: swizzle
(none, 128, 64, 32 bytes). A core matrix is 8 rows of 16 bytes, unswizzled; else 8 rows of the swizzle's width.
"""

from __future__ import annotations

from functools import lru_cache

_WIDTHS = (0, 128, 64, 32)


def repeats_after(word: int) -> int:
    """Bytes after which the swizzle of a descriptor is the same again: it goes by the address."""
    return 8 * _WIDTHS[word >> 62 & 3]


@lru_cache(maxsize=4096)
def rows_of_16(word: int, major: int, outer: int, inner_bytes: int) -> tuple[int, ...] | None:
    """The addresses (without bits above 17) of the 16-byte pieces that an operand covers; None: a form not known.

    major 0 (K-major): `outer` rows (M or N), each of `inner_bytes` along K. major 1: `outer` is the number of k, and
    `inner_bytes` are along M or N.
    """
    start, leading, stride = (word & 0x3FFF) << 4, (word >> 16 & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4
    width = _WIDTHS[word >> 62 & 3]
    if word >> 49 & 7 or word >> 14 & 3 or word >> 30 & 3 or word >> 46 & 7 or word >> 52 & 0x3FF or inner_bytes % 16:
        return None
    out = []
    for row in range(outer):
        for byte in range(0, inner_bytes, 16):
            if width:
                if not major and byte >= width:
                    return None
                address = start + row // 8 * stride + row % 8 * width + byte // width * leading + byte % width
                address ^= (address >> 7 & (width // 16 - 1)) << 4
            elif major:
                address = start + byte // 16 * stride + row // 8 * leading + row % 8 * 16
            else:
                address = start + row // 8 * stride + byte // 16 * leading + row % 8 * 16
            out.append(address)
    return tuple(out)
