"""T.philox, T.random_bits and T.random_uniform against the published algorithm, bit for bit, on every target."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import MinitileError
from tests.language.philox import philox

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")
SEED = 0x123456789ABCDEF0


def test_published_vectors():
    """Random123 1.14.0, examples/kat_vectors: philox4x32 10."""
    ones = (1 << 64) - 1
    assert philox(0, 0, 0).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox(ones, ones, ones).tolist() == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    key, low, high = 0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E
    assert philox(key, low, high).tolist() == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("shape", "threads"), [((8, 64), 64), ((300,), 128), ((3, 5, 12), 64), ((1, 4), 64)])
def test_tiles(target, shape, threads):
    """Counters that need more than 32 bits, a stream, every word of each."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None
    first, stream = (1 << 32) - 3, 99

    @mt.kernel
    def kernel(B: T.Tensor(shape, T.uint32), F: T.Tensor(shape, T.float32), seed: T.uint64):
        with T.Kernel(1, threads=threads):
            bits, numbers = T.alloc_fragment(shape, T.uint32), T.alloc_shared(shape, T.float32)
            T.random_bits(bits, seed, T.cast(first, T.int64), stream)
            T.copy(bits, B)
            T.random_uniform(numbers, seed)
            T.copy(numbers, F)

    b, f = np.zeros(shape, np.uint32), np.zeros(shape, np.float32)
    kernel.compile(target=target).simulate(b, f, SEED)
    count = b.size // 4
    np.testing.assert_array_equal(b.ravel(), philox(SEED, np.arange(first, first + count), stream).T.ravel())
    words = philox(SEED, np.arange(count), 0).T.ravel()
    np.testing.assert_array_equal(f.ravel(), (words >> 8) * 2.0**-24)


@pytest.mark.parametrize("target", TARGETS)
def test_threads_and_elements(target):
    """A word a thread, constants folded; and in T.Parallel."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def kernel(A: T.Tensor((64, 4), T.uint32), B: T.Tensor((128,), T.uint32), C: T.Tensor((4,), T.uint32)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            words, fixed = T.philox(-1, tx, 5), T.philox(SEED, 3)
            for n in T.unroll(4):
                A[tx, n] = words[n]
                C[n] = fixed[n]
            for i in T.Parallel(128):
                B[i] = T.philox(7, T.cast(i, T.uint32))[2]

    a, b, c = np.zeros((64, 4), np.uint32), np.zeros(128, np.uint32), np.zeros(4, np.uint32)
    kernel.compile(target=target).simulate(a, b, c)
    np.testing.assert_array_equal(a, philox((1 << 64) - 1, np.arange(64), 5).T)
    np.testing.assert_array_equal(b, philox(7, np.arange(128), 0)[2])
    np.testing.assert_array_equal(c, philox(SEED, 3, 0))


def test_four_words_of_a_counter_are_computed_once():
    @mt.kernel
    def kernel(B: T.Tensor((1024,), T.uint32), seed: T.uint64):
        with T.Kernel(1, threads=64):
            bits = T.alloc_fragment((1024,), T.uint32)
            T.random_bits(bits, seed)
            T.copy(bits, B)

    compiled = kernel.compile(target="sm_80")
    assert "shared" not in compiled.asm["thread_ir"].replace("shared_bytes", "")
    products = compiled.asm["ptx"].count("mul.lo.u64") + compiled.asm["ptx"].count("mul.lo.s64")
    assert 0 < products <= 1024 // 64 // 4 * 20 + 8


@pytest.mark.parametrize("target", TARGETS)
def test_sequences(target):
    """In loops and under conditions that differ between threads; started again."""
    pytest.importorskip("llvmlite") if target.startswith("gfx") else None

    @mt.kernel
    def kernel(A: T.Tensor((2, 64, 6), T.uint32), F: T.Tensor((2, 64), T.float32)):
        with T.Kernel(2, threads=64) as bx:
            tx = T.get_thread_binding()
            T.rng_init(SEED)
            for n in T.serial(5):
                A[bx, tx, n] = T.rng_rand()
            if tx % 2 == 0:
                A[bx, tx, 5] = T.rng_rand()
            T.rng_init(7, tx, 2)
            F[bx, tx] = T.rng_rand_float()

    a, f = np.zeros((2, 64, 6), np.uint32), np.zeros((2, 64), np.float32)
    kernel.compile(target=target).simulate(a, f)
    words = np.stack([philox(SEED, np.arange(2), n).T.ravel()[:6] for n in range(128)]).reshape(2, 64, 6)
    words[:, 1::2, 5] = 0
    np.testing.assert_array_equal(a, words)
    third = np.array([philox(7, 0, n)[2] for n in range(64)])
    want = third.astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
    np.testing.assert_allclose(f, np.broadcast_to(want, (2, 64)), rtol=2.0**-23)


def test_what_does_not_fit():
    def traced(statement):
        @mt.kernel
        def kernel(A: T.Tensor((64,), T.uint32)):
            with T.Kernel(1, threads=64):
                statement(A, T.alloc_fragment((62,), T.uint32), T.alloc_fragment((64,), T.float32))

        kernel.trace()

    for wrong, message in (
        (lambda A, f, g: T.random_bits(f, 1), "multiple of 4"),
        (lambda A, f, g: T.random_bits(A, 1), "fill a whole fragment"),
        (lambda A, f, g: T.random_bits(g, 1), "use a buffer of uint32"),
        (lambda A, f, g: T.random_uniform(g, 1.5), "seed is f32, not an integer"),
        (lambda A, f, g: T.philox(1, 2.0), "counter is f32, not an integer"),
        (lambda A, f, g: T.rng_rand(), "T.rng_init(seed) starts one"),
        (lambda A, f, g: T.rng_init(1, generator="mrg"), "generator='mrg'"),
        (lambda A, f, g: T.rng_rand_float(64), "bit=32"),
    ):
        with pytest.raises(MinitileError) as caught:
            traced(wrong)
        assert message in f"{caught.value.message} ({caught.value.hint})"
