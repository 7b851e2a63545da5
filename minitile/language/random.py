"""Random numbers by counters: T.philox, T.random_bits, T.random_uniform; and with a state: T.rng_init, T.rng_rand."""

from __future__ import annotations

import math
from typing import Any

from minitile.ir.core import Value
from minitile.ir.diagnostics import TypeMismatchError
from minitile.ir.ops import arith, tile
from minitile.ir.ops.random import WORDS, RandomBits
from minitile.ir.philox import philox as philox_words
from minitile.ir.types import f32, i32, i64, u32, u64
from minitile.language.indices import get_block_binding, get_thread_binding, get_thread_extent
from minitile.language.memory import as_region
from minitile.language.scalars import Expr, Scalar, operand_value
from minitile.language.tiles import alloc_local, regions, tile_scope
from minitile.language.tracing.context import current


def philox(seed: Any, counter: Any, stream: Any = 0) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """Four random words of 32 bits: Philox4x32-10 (Salmon et al., SC 2011) of a counter, bit for bit.

    The same numbers give the same words, on every target; there is no state. T.random_bits fills whole fragments.

    Args:
        seed: the key, an integer of up to 64 bits.
        counter: an integer of up to 64 bits: the lower two words of Philox's counter.
        stream: the upper two words.

    Returns:
        Four uint32.

    Raises:
        TypeMismatchError: what is no integer.

    Example:
        ```py
        words = T.philox(42, tx)
        V[tx] = T.cast(words[0] >> 8, T.float32) * 2.0**-24
        ```
    """
    numbers = (_word(x, f"T.philox's {what}") for x, what in ((seed, "seed"), (counter, "counter"), (stream, "stream")))
    a, b, c, d = philox_words(current().b, *numbers)
    return Expr(a), Expr(b), Expr(c), Expr(d)


@regions("dst")
def random_bits(dst: Any, seed: Any, counter: Any = 0, stream: Any = 0) -> None:
    """Fills a fragment or a shared buffer with random words: Philox4x32-10, four words of each counter.

    Element n of the buffer, counted row by row, becomes word n % 4 of `T.philox(seed, counter + n // 4, stream)`. So a
    tile of a larger array has the words of that array where `counter` is the number of its first element over 4.

    Args:
        dst: a whole fragment or shared buffer of uint32 or int32, whose last dimension is a multiple of 4.
        seed: the key, an integer of up to 64 bits.
        counter: of the first four elements: an integer of up to 64 bits.
        stream: the upper two words of Philox's counter.

    Raises:
        LanguageError: a part of a buffer, another last dimension; inside T.Parallel.
        TypeMismatchError: another dtype; what is no integer.

    Example:
        ```py
        bits = T.alloc_fragment((32, 128), T.uint32)
        T.random_bits(bits, 42, bx * (32 * 128 // 4))
        ```
    """
    _emit_random("T.random_bits", dst, seed, counter, stream, False)


@regions("dst")
def random_uniform(dst: Any, seed: Any, counter: Any = 0, stream: Any = 0) -> None:
    """Fills a fragment or a shared buffer with random numbers from 0 up to, not including, 1: the upper 24 bits of
    T.random_bits over 2^24.

    Args:
        dst: a whole fragment or shared buffer of float32, whose last dimension is a multiple of 4.
        seed: the key, an integer of up to 64 bits.
        counter: of the first four elements: an integer of up to 64 bits.
        stream: the upper two words of Philox's counter.

    Raises:
        LanguageError: a part of a buffer, another last dimension; inside T.Parallel.
        TypeMismatchError: another dtype; what is no integer.

    Example:
        ```py
        T.random_uniform(x, 42, bx * (32 * 128 // 4))
        T.copy(x, Y[bx * 32, 0])
        ```
    """
    _emit_random("T.random_uniform", dst, seed, counter, stream, True)


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str = "curandStatePhilox4_32_10_t") -> None:
    """Starts each thread's own sequence of random words, which T.rng_rand takes one by one: word n is word
    (off + n) % 4 of `T.philox(seed, (off + n) // 4, seq)`, as of cuRAND's Philox generator.

    Args:
        seed: an integer of up to 64 bits.
        seq: which of the seed's sequences; None: the number of the thread in the grid, whose blocks count along x.
        off: how many words to leave out.
        generator: that one only.

    Raises:
        LanguageError: another generator; inside T.Parallel.
        TypeMismatchError: what is no integer.

    Example:
        ```py
        T.rng_init(42)
        V[tx] = T.rng_rand_float()
        ```
    """
    trace = tile_scope("T.rng_init")
    if generator != "curandStatePhilox4_32_10_t":
        raise trace.error(f"T.rng_init: generator={generator!r}", "curandStatePhilox4_32_10_t")
    if seq is None:
        seq = get_thread_binding() + get_block_binding() * get_thread_extent()
    if trace.random is None:
        trace.random = alloc_local((3,), u64)
    for n, (x, what) in enumerate(((seed, "seed"), (seq, "seq"), (off, "off"))):
        trace.random.store(n, Expr(_word(x, f"T.rng_init's {what}")))


def rng_rand() -> Scalar:
    """The next random word of the thread's own sequence, which T.rng_init has started: uint32.

    Raises:
        LanguageError: no T.rng_init in front; inside T.Parallel, whose elements T.random_bits fills.

    Example:
        ```py
        T.rng_init(42, tx)
        I[tx] = T.cast(T.rng_rand() >> 1, T.int32)
        ```
    """
    trace = tile_scope("T.rng_rand")
    state = trace.random
    if state is None:
        raise trace.error("T.rng_rand without a sequence", "T.rng_init(seed) starts one")
    b = trace.b
    key, stream, place = (state.load(n).value for n in range(3))
    words = philox_words(b, key, b.value(arith.Shr(place, b.constant(2, u64))), stream)
    which = b.cast(b.value(arith.And(place, b.constant(3, u64))), u32)
    found = words[3]
    for n in (2, 1, 0):
        found = b.select(b.value(arith.Cmp(which, b.constant(n, u32), "eq")), words[n], found)
    state.store(2, Expr(b.value(arith.Add(place, b.constant(1, u64)))))
    return Expr(found)


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Scalar:
    """The next random number of the thread's own sequence, over 0 and up to 1: (T.rng_rand() + 1/2) / 2^32, rounded,
    as of cuRAND.

    Args:
        bit: 32: a float32.
        dist: "uniform".

    Raises:
        LanguageError: other numbers; no T.rng_init in front; inside T.Parallel.

    Example:
        ```py
        T.rng_init(42, tx)
        V[tx] = T.rng_rand_float()
        ```
    """
    if bit != 32 or dist != "uniform":
        raise current().error(f"T.rng_rand_float(bit={bit!r}, dist={dist!r})", 'bit=32 and dist="uniform"')
    b = current().b
    number = b.cast(rng_rand().value, f32)
    scaled = b.value(arith.Mul(number, b.constant(2.0**-32, f32)))
    return Expr(b.value(arith.Add(scaled, b.constant(2.0**-33, f32))))


def _emit_random(what: str, dst: Any, seed: Any, counter: Any, stream: Any, uniform: bool) -> None:
    trace = tile_scope(what)
    b, region = trace.b, as_region(dst, f"{what}'s buffer")
    memory = region.memory
    if memory.space not in ("fragment", "shared") or region.shape != memory.static_shape:
        raise trace.error(f"{what} of {region.describe()}", "fill a whole fragment, and copy it")
    *outer, last = region.shape
    if last % WORDS:
        raise trace.error(f"{what} of {memory.describe()}", f"its last dimension is to be a multiple of {WORDS}")
    if memory.dtype not in ((f32,) if uniform else (u32, i32)):
        raise TypeMismatchError(
            f"{what} into {memory.dtype}", trace.loc, f"use a buffer of {'float32' if uniform else 'uint32'}"
        )
    shape = (*outer, last // WORDS)
    number: Value | None = None
    for d in range(len(shape)):
        step = b.value(tile.Splat(b.constant(math.prod(shape[d + 1 :])), shape))
        part = b.value(arith.Mul(b.value(tile.Iota(shape, d)), step))
        number = part if number is None else b.value(arith.Add(number, part))
    assert number is not None
    first = b.value(tile.Splat(_word(counter, f"{what}'s counter"), shape))
    counters = b.value(arith.Add(first, b.cast(number, u64)))
    key, upper = _word(seed, f"{what}'s seed"), _word(stream, f"{what}'s stream")
    bits = b.value(RandomBits(counters, key, upper))
    if uniform:
        kept = b.value(arith.Shr(bits, b.value(tile.Splat(b.constant(8, u32), region.shape))))
        bits = b.cast(b.cast(kept, i32), f32)
        bits = b.value(arith.Mul(bits, b.value(tile.Splat(b.constant(2.0**-24, f32), region.shape))))
    rank = len(region.shape)
    b.emit(tile.Store(memory.value, region.offsets, b.cast(bits, memory.dtype), dims=tuple(range(rank))))


def _word(x: Any, what: str) -> Value:
    """An integer as a u64."""
    if isinstance(x, int) and not isinstance(x, bool):
        return current().b.constant(x % (1 << 64), u64)
    value = operand_value(x)
    if not value.dtype.is_int:
        raise TypeMismatchError(f"{what} is {value.dtype}, not an integer", current().loc)
    return current().b.cast(value if value.dtype.kind == "uint" else current().b.cast(value, i64), u64)
