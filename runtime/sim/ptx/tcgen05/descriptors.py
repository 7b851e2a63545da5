"""What a tcgen05.mma is told by its descriptors (PTX ISA 8.8, 9.7.16.4 "Matrix Descriptors", 9.7.16.4.2 "Instruction
descriptor", table 39 of shapes, 9.7.16.10.7 "Block Scaling").

A word that says what is not allowed is a ValueError with the reason; the instruction makes a finding of it. Where the
matrices lie follows from the canonical layouts, which are those of wgmma_layout.py: the same fields at the same places,
but for a version in bits 46-47 and the swizzle's mode in bits 61-63.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..instructions.wgmma_layout import Descriptor
from .elements import K_MAJOR, PADDED

_F8 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1/16"}
_ELEMENTS = {  # by kind: the element that a format's number means
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": _F8,
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": _F8,
    "mxf4": {1: "e2m1"},
    "mxf4nvf4": {1: "e2m1"},
}
_BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
_SMALL = {0: "f16", 1: "f32"}
_RESULTS = {"f16": _SMALL, "tf32": {1: "f32"}, "f8f6f4": _SMALL, "i8": {2: "s32"}}
_WIDTHS = {0: 16, 2: 128, 4: 64, 6: 32}
_RESERVED = 1 << 6 | 1 << 23 | 1 << 29
_UNUSED = {(0, 2): "a sparsity selector", (2, 1): "sparsity", (3, 1): "saturation", (30, 2): "a shift"}
_RESERVED_SCALED = 3 | 1 << 3 | 1 << 6 | 7 << 24
# By kind and scales for 32 bytes of K: the formats of scales, by bit 23, and the places in a word where they may begin.
_SCALES = {
    ("mxf8f6f4", 1): ({1: "ue8m0"}, (0, 1, 2, 3)),
    ("mxf4", 2): ({1: "ue8m0"}, (0, 2)),
    ("mxf4nvf4", 2): ({1: "ue8m0"}, (0, 2)),
    ("mxf4nvf4", 4): ({0: "ue4m3", 1: "ue8m0"}, (0,)),
}
SCALED = frozenset(kind for kind, _ in _SCALES)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How blocks of K are scaled: `number` of factors for 32 bytes of K, their format, and in which bytes of a word of
    tensor memory those of A and of B begin."""

    number: int
    kind: str
    a_byte: int
    b_byte: int


@dataclass(frozen=True, slots=True)
class Product:
    """What an instruction multiplies: M × N × 32 bytes of K, of elements `a` and `b` with so many bits, into `d`."""

    kind: str
    a: str
    b: str
    d: str
    m: int
    n: int
    bits: int
    a_mn_major: bool
    b_mn_major: bool
    negative: bool
    scaling: Scaling | None = None

    @property
    def k(self) -> int:
        """Elements of K."""
        return 256 // self.bits


def product(word: int, kind: str, a_in_tensor_memory: bool, ctas: int = 1, factors: int = 0) -> Product:
    """The instruction descriptor of a product by one CTA or two; `factors`: the scale factors for 32 bytes of K of a
    kind that scales blocks. Raises ValueError."""
    scaling = _scaling(word, kind, factors) if kind in SCALED else None
    if scaling is None:
        if word & _RESERVED:
            raise ValueError(f"the instruction descriptor {word:#x} has reserved bits set")
        for (first, bits), name in _UNUSED.items():
            if word >> first & (1 << bits) - 1:
                raise ValueError(f"the instruction descriptor asks for {name}, which this form of the product has not")
    elements, results = _ELEMENTS[kind], _RESULTS.get(kind)
    a, b, d = word >> 7 & 7, word >> 10 & 7, word >> 4 & 3
    if a not in elements or b not in elements or (results is not None and d not in results):
        raise ValueError(f"the instruction descriptor's formats {a}, {b} into {d} are not those of kind {kind}")
    if kind == "f16" and (a != b or (a == 1 and d == 0)):
        raise ValueError("kind f16 multiplies f16 by f16, or bf16 by bf16; the latter into f32 alone")
    n, m = (word >> 17 & 63) << 3, (word >> 24 & 31) << 4
    if m not in ((64, 128) if ctas == 1 else (128, 256)) or (scaling is not None and m == 64):
        raise ValueError(f"M is 64 or 128 of one CTA (128 with scales), 128 or 256 of a pair, not {m} of {ctas}")
    step = 16 if (a_in_tensor_memory and m != 64) or (kind == "i8" and (n > 32 or ctas == 2)) else 8
    step *= ctas
    if n % step or not step <= n <= 256:
        raise ValueError(f"N is a multiple of {step} up to 256 here, not {n}")
    a_mn, b_mn = bool(word >> 15 & 1), bool(word >> 16 & 1)
    if a_mn and a_in_tensor_memory:
        raise ValueError("A in tensor memory is K-major")
    names = elements[a], elements[b]
    if any(mn and name in K_MAJOR for mn, name in zip((a_mn, b_mn), names, strict=True)):
        raise ValueError(f"operands of {' and '.join(names)} are K-major")
    if a_in_tensor_memory and names[0] in PADDED:
        raise ValueError(f"A of {names[0]} in tensor memory is not executed")
    negates = (word >> 13 & 1) ^ (word >> 14 & 1)
    if kind == "i8" and word >> 13 & 3:
        raise ValueError("kind i8 negates nothing")
    into = "f32" if results is None else results[d]
    bits = _BITS[kind]
    return Product(kind, *names, into, m, n, bits, a_mn, b_mn, bool(negates), scaling)


def _scaling(word: int, kind: str, factors: int) -> Scaling:
    """What the descriptor of a kind that scales blocks says of the scales."""
    if word & (_RESERVED_SCALED | (1 << 31 if kind == "mxf8f6f4" else 0)):
        raise ValueError(f"the instruction descriptor {word:#x} has reserved bits set")
    if word >> 2 & 1:
        raise ValueError("the instruction descriptor asks for sparsity, which this form of the product has not")
    if word >> 31:
        raise ValueError("the instruction descriptor asks for K = 96, which is sm_103a's and not executed")
    formats, places = _SCALES[kind, factors]
    chosen, a_byte, b_byte = word >> 23 & 1, word >> 29 & 3, word >> 4 & 3
    if chosen not in formats:
        raise ValueError(f"scales of kind {kind} with {factors} for 32 bytes of K are not of format {chosen}")
    if a_byte not in places or b_byte not in places:
        raise ValueError(f"{factors} scales begin at one of the bytes {places} of a word, not at {a_byte} and {b_byte}")
    return Scaling(factors, formats[chosen], a_byte, b_byte)


def factors_of(kind: str, vector: str | None) -> int | None:
    """The scale factors for 32 bytes of K that an instruction's .scale_vec::NX or .blockN means; None if there is no
    such instruction."""
    if vector is None:
        return {"mxf8f6f4": 1, "mxf4": 2}.get(kind)
    number = {"1X": 1, "2X": 2, "4X": 4}.get(vector.partition("::")[2])
    if number is None:
        number = 4 if vector == "block16" else 1 if kind == "mxf8f6f4" else 2
    return number if (kind, number) in _SCALES else None


def matrix(word: int, mn_major: bool, bits: int) -> Descriptor:
    """The descriptor of a matrix in shared memory. Raises ValueError."""
    if word >> 46 & 3 != 1:
        raise ValueError(f"the matrix descriptor {word:#x} has version {word >> 46 & 3} in bits 46-47, not 1")
    if word & (3 << 14 | 3 << 30 | 1 << 48 | 0xFF << 53):
        raise ValueError(f"the matrix descriptor {word:#x} has reserved bits set")
    if word >> 52 & 1:
        raise ValueError("the matrix descriptor's leading offset is an absolute address, which is for other products")
    mode = word >> 61
    if mode == 1 or (mn_major and bits == 32):
        raise ValueError(
            "128-byte swizzles of 32-byte atoms, which MN-major operands of 32 bits want, are not executed"
        )
    if mode not in _WIDTHS:
        raise ValueError(f"the matrix descriptor's swizzle is {mode}; there are 0, 1, 2, 4 and 6")
    return Descriptor(
        (word & 0x3FFF) << 4,
        (word >> 16 & 0x3FFF) << 4,
        (word >> 32 & 0x3FFF) << 4,
        word >> 49 & 7,
        _WIDTHS[mode],
    )
