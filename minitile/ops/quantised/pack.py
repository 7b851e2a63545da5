"""Weights of 4 and 8 bits, packed once in the order in which `matmul_quantised` takes them.

A thread of `mma.sync` and of wgmma has eight numbers of 16 × 16 of a left operand (PTX ISA 8.3, 9.7.13.4.8 and
9.7.14.5.1): thread 4·r + q those of rows r and r + 8 (h), columns 2q and 2q + 1 (e), and these + 8 (g). Its numbers
stand together in words, so that nothing is exchanged between threads, and four words follow each other, one access:

    n = 64·t + 16·w + 8·h + r        of 64 rows, a tile, each warp has 16
    k = U·b + 16·s + 8·g + 2·q + e   U is 64 for 4 bits, 32 for 8 bits

    4 bits   word (t, b, w, r, q, s)       its bits 16·e + 8·g + 4·h and the next three
    8 bits   word (t, b, w, r, q, s, g)    its bits 16·e + 8·h and the next seven

So the two numbers of a pair are 16 bits apart, and one shift and one mask make a pair. Rows are filled up to 64 with
zeros. Words are an i32 array of 64-row tiles × strips of 16 rows (K / U · 4 of them) × 128.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from minitile.ops.operands import OPERANDS, named, refused

TILE, STRIP, WORDS = 64, 16, 4


@dataclass(frozen=True)
class Format:
    """bits: of a number. groups: the numbers along K that may share a scale. dtype: NumPy's, of numbers that a byte
    each. greatest: what `quantise_weights` gives the largest number of a group."""

    name: str
    bits: int
    groups: tuple[int, ...]
    dtype: Any
    greatest: float

    @property
    def unit(self) -> int:
        """Numbers along K of four words of a thread."""
        return 256 // self.bits

    @property
    def integer(self) -> bool:
        return self.name.startswith("int")


FORMATS = {
    "int4": Format("int4", 4, (64, 128), np.int8, 7.0),
    "int8": Format("int8", 8, (64, 128), np.int8, 127.0),
    "e4m3": Format("e4m3", 8, (64, 128), ml_dtypes.float8_e4m3fn, 448.0),
    "mxfp4": Format("mxfp4", 4, (32,), ml_dtypes.float4_e2m1fn, 6.0),
}


@dataclass(frozen=True, eq=False)
class QuantisedWeights:
    """An N × K matrix of packed weights, on the device of its arrays.

    format: its name. n, k: of the matrix. group: the numbers along K that share a scale. words: i32, N/64 × 4·K/U × 128
    (rounded up; U is 64 for 4 bits, 32 for 8), in the order that this module describes. scales: one for each `group`
    numbers of a row, K/group × N rounded up to 64: bf16 or f16, of mxfp4 the bytes of e8m0. zero_points: of int4, as
    `scales` and of their dtype, or None.
    """

    format: str
    n: int
    k: int
    group: int
    words: Any
    scales: Any
    zero_points: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.n, self.k

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Words, scales and, if there are any, zero points."""
        return (self.words, self.scales) if self.zero_points is None else (self.words, self.scales, self.zero_points)

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What decides which kernel multiplies them, but for their dtypes."""
        return self.format, self.n, self.k, self.group

    @property
    def nbytes(self) -> int:
        """Of all arrays together."""
        return sum(int(np.prod(x.shape)) * x.dtype.itemsize for x in self.arrays)

    def dequantise(self) -> np.ndarray:
        """What the numbers stand for, exactly, as N × K of float64: a reference for tests, on the CPU."""
        form = FORMATS[self.format]
        codes = _unpacked(_numpy(self.words), form)[: self.n, : self.k]
        if form.integer:
            numbers = codes.astype(np.float64)
            if self.format == "int8":
                numbers -= 256 * (numbers > 127)
            elif self.zero_points is None:
                numbers -= 8
            else:
                numbers -= self._spread(self.zero_points)
        else:
            numbers = codes.astype(np.uint8).view(form.dtype).astype(np.float64)
        if self.format == "mxfp4":
            raw = np.repeat(_numpy(self.scales).T[: self.n].astype(np.float64), self.group, axis=1)[:, : self.k]
            found = numbers * np.exp2(raw - 127)
        else:
            found = numbers * self._spread(self.scales)
        return np.asarray(found)

    def _spread(self, table: Any) -> np.ndarray:
        rows = _numpy(table).T[: self.n].astype(np.float64)
        return np.repeat(rows, self.group, axis=1)[:, : self.k]


def pack_weights(
    codes: Any, scales: Any, zero_points: Any = None, *, format: str = "int4", group: int | None = None
) -> QuantisedWeights:
    """Packs weights that are quantised already, once; the numbers are codes · scales, (codes - zero_points) · scales.

    Args:
        codes: N × K integers, of NumPy or torch: int4 from -8 to 7, with zero points from 0 to 15; int8 from -128 to
            127; e4m3: float8_e4m3fn, or its bytes, no NaN; mxfp4: the codes of e2m1, from 0 to 15, one for each byte.
        scales: N × K/group (rounded up), bf16 or f16, as the rows that they will be multiplied with; mxfp4: the bytes
            of e8m0.
        zero_points: as many integers from 0 to 15, of int4.
        format: "int4", "int8", "e4m3" or "mxfp4".
        group: the numbers along K that share a scale: 64 or 128, of mxfp4 32; what the shapes say by default. The last
            group of a row may have fewer.

    Raises:
        LaunchArgumentError: arrays that do not fit.

    Example:
        ```py
        weights = mt.ops.pack_weights(codes, scales, zeros, format="int4")
        y = mt.ops.matmul_quantised(x, weights)
        ```
    """
    form = FORMATS.get(format)
    if form is None:
        raise refused(f"no format {format!r}", f"there are {', '.join(FORMATS)}")
    _matrices(codes=codes, scales=scales, **({} if zero_points is None else {"zero_points": zero_points}))
    (n, k), found = codes.shape, tuple(scales.shape)
    group = group or next((g for g in form.groups if found == (n, -(-k // g))), 0)
    if group not in form.groups or not k or found != (n, -(-k // group)):
        raise refused(
            f"{n}×{k} weights of {format} with {'×'.join(map(str, found))} scales",
            f"N × K/group scales (rounded up), for groups of {' or '.join(map(str, form.groups))}",
        )
    if zero_points is not None and (format != "int4" or tuple(zero_points.shape) != found):
        raise refused("zero points are for int4, as many as scales")
    if zero_points is not None:
        _whole("zero_points", zero_points, 0, 15)
    raw = _codes(codes, form, zero_points is not None)
    words = _packed(raw, form)
    padded = [None if x is None else _columns(_like(x, codes)) for x in (scales, zero_points)]
    if format == "mxfp4":
        padded[0] = _cast(_exponents(padded[0]), "uint8")
    elif _name(scales.dtype) not in ("bfloat16", "float16"):
        raise refused(
            f"scales of {_name(scales.dtype)}", "bf16 or f16, as the rows that the weights are multiplied with"
        )
    if zero_points is not None:
        padded[1] = _cast(padded[1], _name(scales.dtype))
    return QuantisedWeights(format, n, k, group, words, *padded)


def quantise_weights(
    w: Any, *, format: str = "int4", group: int | None = None, zero_points: bool = False, dtype: Any = None
) -> QuantisedWeights:
    """Quantises an N × K matrix by rounding to the nearest, and packs it.

    Args:
        w: floats, of NumPy or torch, N × K.
        format: as of `pack_weights`.
        group: the numbers along K that share a scale: 64 or 128 (the default), of mxfp4 32.
        zero_points: of int4, whether the range of a group need not lie around 0.
        dtype: of the scales, "bf16" or "f16"; w's, if it is one of these, else bf16.

    Raises:
        LaunchArgumentError: arguments that do not fit.
    """
    _matrices(w=w)
    form = FORMATS.get(format)
    if form is None:
        raise refused(f"no format {format!r}", f"it takes {', '.join(FORMATS)}")
    group = group or form.groups[-1]
    if group not in form.groups or not w.shape[1]:
        allowed = f"{' or '.join(map(str, form.groups))} of an N × K matrix"
        raise refused(f"{format} in groups of {group} of weights {tuple(w.shape)}", f"it takes {allowed}")
    if zero_points and format != "int4":
        raise refused("zero points are for int4")
    of_w = "f16" if _name(w.dtype) == "float16" else "bf16"
    chosen = of_w if dtype is None else named("dtype", dtype).name
    if chosen not in OPERANDS:
        raise refused(f"dtype is {dtype!r}", f"scales are of {' or '.join(OPERANDS)}")
    kind = np.float16 if chosen == "f16" else ml_dtypes.bfloat16
    (n, k), rest = w.shape, -w.shape[1] % group
    values = np.pad(_numpy(w).astype(np.float32), ((0, 0), (0, rest))).reshape(n, -(-k // group), group)
    if not np.isfinite(values).all():
        raise refused("w has infinities or NaN", "only finite numbers are quantised")
    zeros = None
    if format == "mxfp4":
        top = np.maximum(np.abs(values).max(2), 2.0**-120)
        scales = np.clip(np.floor(np.log2(top)) - 2 + 127, 1, 254).astype(np.uint8)
        steps = np.exp2(scales.astype(np.float32) - 127)
    elif zero_points:
        low, high = np.minimum(values.min(2), 0), np.maximum(values.max(2), 0)
        scales = np.maximum((high - low) / 15, 1e-7).astype(kind)
        steps = scales.astype(np.float32)
        zeros = np.clip(np.rint(-low / steps), 0, 15)
    else:
        scales = np.maximum(np.abs(values).max(2) / form.greatest, 1e-7).astype(kind)
        steps = scales.astype(np.float32)
    codes = values / steps[..., None]
    if form.integer:
        codes = np.rint(codes) + (0 if zeros is None else zeros[..., None])
        least, most = (0, 15) if zeros is not None else (-(1 << form.bits - 1), (1 << form.bits - 1) - 1)
        codes = np.clip(codes, least, most).astype(np.int8)
    else:
        codes = np.clip(codes, -form.greatest, form.greatest).astype(form.dtype).view(np.uint8)
    packed = pack_weights(codes.reshape(n, k + rest)[:, :k], scales, zeros, format=format, group=group)
    return packed if isinstance(w, np.ndarray) else _moved(packed, w)


# Arrays of NumPy and torch -------------------------------------------------------------------------------------------


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _torch(x: Any) -> Any:
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(x, torch.Tensor) else None


def _numpy(x: Any) -> np.ndarray:
    """On the CPU; bf16 and fp8 of torch too."""
    torch = _torch(x)
    if torch is None:
        return np.asarray(x)
    x = x.detach().cpu()
    kinds = {"bfloat16": (torch.int16, ml_dtypes.bfloat16), "float8_e4m3fn": (torch.uint8, ml_dtypes.float8_e4m3fn)}
    through = kinds.get(_name(x.dtype))
    found: np.ndarray = x.numpy() if through is None else x.view(through[0]).numpy().view(through[1])
    return found


def _tensor(torch: Any, x: np.ndarray, device: Any) -> Any:
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).to(device)
    return torch.from_numpy(x).to(device)


def _moved(weights: QuantisedWeights, like: Any) -> QuantisedWeights:
    """On the device of a tensor."""
    torch = _torch(like)
    arrays = (weights.words, weights.scales, weights.zero_points)
    moved = [None if x is None else _tensor(torch, np.ascontiguousarray(x), like.device) for x in arrays]
    return QuantisedWeights(weights.format, weights.n, weights.k, weights.group, *moved)


def _like(x: Any, like: Any) -> Any:
    """An array of the other one's framework."""
    torch = _torch(like)
    if torch is not None and _torch(x) is None:
        return _tensor(torch, np.ascontiguousarray(x), like.device)
    return x


def _cast(x: Any, name: str) -> Any:
    torch = _torch(x)
    if torch is not None:
        return x.to(getattr(torch, name))
    return x.astype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _matrices(**given: Any) -> None:
    """Raises LaunchArgumentError for what is no matrix of NumPy or torch."""
    for name, x in given.items():
        if not isinstance(x, np.ndarray) and _torch(x) is None:
            raise refused(f"{name} is of type {type(x).__name__}", "pass an array of NumPy or torch")
        if len(x.shape) != 2:
            raise refused(f"{name} has shape {tuple(x.shape)}", "it is a matrix, N rows")


def _whole(what: str, x: Any, least: int, most: int) -> None:
    """Raises LaunchArgumentError for what are no integers within these bounds. Of float dtypes, as a quantiser may
    give them, the numbers have to be whole."""
    if 0 in tuple(x.shape):
        return
    name = _name(x.dtype)
    if "float8" in name or "float4" in name:
        raise refused(f"{what} are of {name}", f"they are integers from {least} to {most}")
    if name in ("bool", "int4", "uint4"):
        x = _cast(x, "int32")
    if "int" not in name and not bool((x == (x.round() if _torch(x) is not None else np.rint(x))).all()):
        raise refused(f"{what} that are not whole", f"they are integers from {least} to {most}")
    low, high = int(x.min()), int(x.max())
    if not least <= low <= high <= most:
        raise refused(f"{what} from {low} to {high}", f"they go from {least} to {most}")


def _exponents(scales: Any) -> Any:
    """Scales of mxfp4, once they are known to be such bytes. Raises LaunchArgumentError for others."""
    if "e8m0" in _name(scales.dtype):
        return scales.view(np.uint8 if _torch(scales) is None else _torch(scales).uint8)
    if "int" not in _name(scales.dtype):
        raise refused(f"scales of {_name(scales.dtype)} for mxfp4", "pass the bytes of e8m0: 127 + the power of two")
    _whole("scales of mxfp4", scales, 0, 254)
    return scales


def _columns(x: Any) -> Any:
    """N × G as G × N, N filled up to a tile with zeros."""
    n, groups = x.shape
    torch = _torch(x)
    shape = (groups, -(-n // TILE) * TILE)
    if torch is not None:
        found = torch.zeros(shape, dtype=x.dtype, device=x.device)
        found[:, :n] = x.t()
        return found
    found = np.zeros(shape, x.dtype)
    found[:, :n] = x.T
    return found


def _codes(codes: Any, form: Format, zeros: bool) -> Any:
    """The bits of the numbers as i32, N × K filled up to tiles and units. Raises LaunchArgumentError for others."""
    torch = _torch(codes)
    if form.name == "e4m3" and _name(codes.dtype) == "float8_e4m3fn":
        codes = codes.view(np.uint8 if torch is None else torch.uint8)
    least, most = (
        (0, (1 << form.bits) - 1) if zeros or not form.integer else (-(1 << form.bits - 1), (1 << form.bits - 1) - 1)
    )
    _whole(f"codes of {form.name}", codes, least, most)
    raw = _cast(codes, "int32")
    if form.name == "e4m3" and bool(((raw & 0x7F) == 0x7F).any()):
        raise refused("codes of e4m3 that are NaN")
    if form.name == "int4" and not zeros:
        raw = raw + 8
    n, k = raw.shape
    shape = (-(-n // TILE) * TILE, -(-k // form.unit) * form.unit)
    if shape == (n, k):
        return raw
    empty = 8 if form.name == "int4" and not zeros else 0
    found = (
        np.full(shape, empty, np.int32)
        if torch is None
        else torch.full(shape, empty, dtype=raw.dtype, device=raw.device)
    )
    found[:n, :k] = raw
    return found


def _packed(raw: Any, form: Format) -> Any:
    """The words. raw: whole tiles and units."""
    (n, k), many = raw.shape, form.unit // 16
    parts = raw.reshape(n // TILE, 4, 2, 8, k // form.unit, many, 2, 4, 2)  # t w h r b s g q e
    order = (0, 4, 1, 3, 7, 5, 6, 2, 8)  # t b w r q s g h e
    parts = parts.transpose(order) if _torch(raw) is None else parts.permute(order)
    words: Any = 0
    for g in range(2):
        for h in range(2):
            for e in range(2):
                place = 16 * e + (8 * g + 4 * h if form.bits == 4 else 8 * h)
                if form.bits == 4:
                    words = words | (parts[..., g, h, e] & 15) << place
                elif g == 0:
                    words = words | (parts[..., h, e] & 255) << place
    shape = (n // TILE, k // form.unit * 4, 128)
    found = words.reshape(shape)
    return np.ascontiguousarray(found) if _torch(raw) is None else found.contiguous()


def _unpacked(words: np.ndarray, form: Format) -> np.ndarray:
    """The bits of the numbers, N × K, both filled up."""
    tiles, strips, _ = words.shape
    units, many, each = strips // 4, form.unit // 16, 8 // form.bits
    word = words.view(np.uint32).reshape(tiles, units, 4, 8, 4, many, 2 // each if form.bits == 4 else 2)
    raw = np.zeros((tiles, units, 4, 8, 4, many, 2, 2, 2), np.uint32)
    for g in range(2):
        for h in range(2):
            for e in range(2):
                if form.bits == 4:
                    raw[..., g, h, e] = word[..., 0] >> (16 * e + 8 * g + 4 * h) & 15
                else:
                    raw[..., g, h, e] = word[..., g] >> (16 * e + 8 * h) & 255
    found = raw.transpose(0, 2, 7, 3, 1, 5, 6, 4, 8)  # t w h r b s g q e
    return found.reshape(tiles * TILE, units * form.unit)
