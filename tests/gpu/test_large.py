"""Tensors of 2^31 elements and more on the GPU: u8 and bf16, one dimension and two, by TMA and without.

    MINITILE_GPU=1 python -m pytest -q tests/gpu/test_large.py       LARGEST=33 for 2^33 elements (16 GB a tensor)

Each kernel copies all of a tensor, block by block, into one of zeros; torch compares them on the GPU. A test is skipped
where the GPU has no room for both.
"""

from __future__ import annotations

import os

import pytest

import minitile as mt
import minitile.language as T

pytestmark = pytest.mark.gpu
LARGEST = 1 << int(os.environ.get("LARGEST", "32"))
EDGES = ((1 << 31) - 1, 1 << 31, (1 << 31) + 1, (9 << 28) + 16, (1 << 32) + 12345, (1 << 33) - 3, 1 << 33)
SIZES = [n for n in EDGES if n <= LARGEST]
SHAPES = [(1 << 16, (1 << 15) + 64), ((1 << 31) + 40, 2), (3, (1 << 30) + 128), (1, (1 << 31) + 128)]
TARGETS = ("auto", "sm_80")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def tensors(torch, shape, dtype):
    """Numbers, and zeros."""
    count = 1
    for n in shape:
        count *= n
    element = torch.empty((), dtype=dtype).element_size()
    if 2.5 * count * element > torch.cuda.mem_get_info()[0]:
        pytest.skip("the GPU has no room for that")
    torch.cuda.empty_cache()
    A = torch.empty(shape, dtype=dtype, device="cuda")
    flat, step = A.view(-1).view(torch.uint8), (1 << 24) - 3  # a period that no power of two hides
    pattern = torch.randint(0, 60, (step,), dtype=torch.uint8, device="cuda")
    for at in range(0, len(flat), step):
        flat[at : at + step] = pattern[: len(flat) - at]
    return A, torch.zeros(shape, dtype=dtype, device="cuda")


def same(torch, A, C):
    a, c = A.view(-1).view(torch.uint8), C.view(-1).view(torch.uint8)
    step = 1 << 30
    return all(torch.equal(a[at : at + step], c[at : at + step]) for at in range(0, len(a), step))


def row_copy(dtype, target, block=4096):
    @mt.kernel(target=target)
    def kernel(A: T.Tensor(("N",), dtype), C: T.Tensor(("N",), dtype)):
        with T.Kernel(T.ceildiv(A.shape[0], block), threads=256) as b:
            for j in T.Parallel(block):
                C[b * block + j] = A[b * block + j]

    return kernel


def staged_copy(dtype, target, rows=64, columns=64):
    """Through shared memory, several tiles of a row in a pipelined loop: by TMA where a target has it."""

    @mt.kernel(target=target)
    def kernel(A: T.Tensor(("M", "N"), dtype), C: T.Tensor(("M", "N"), dtype)):
        M, N = A.shape
        with T.Kernel(T.ceildiv(M, rows), T.min(T.ceildiv(N, columns * 16), 32768), threads=128) as (by, bx):
            staged = T.alloc_shared((rows, columns), dtype)
            held = T.alloc_fragment((rows, columns), dtype)
            first = bx * 16
            for turn in range(T.ceildiv(T.ceildiv(N, columns * 16), 32768)):
                for k in T.Pipelined(16, num_stages=3):
                    T.copy(A[by * rows, (turn * 32768 * 16 + first + k) * columns], staged)
                    T.copy(staged, held)
                    T.copy(held, C[by * rows, (turn * 32768 * 16 + first + k) * columns])

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
@pytest.mark.parametrize("size", SIZES)
def test_one_dimension(torch, target, dtype, size):
    A, C = tensors(torch, (size,), getattr(torch, dtype))
    row_copy(getattr(T, dtype), target)(A, C)
    assert same(torch, A, C)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", "bfloat16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_two_dimensions(torch, target, dtype, shape):
    A, C = tensors(torch, shape, getattr(torch, dtype))
    staged_copy(getattr(T, dtype), target)(A, C)
    assert same(torch, A, C)


def times_one(target, rows=128, columns=128):
    """A times the identity: on sm_90a its tiles come and go by TMA."""

    @mt.kernel(target=target)
    def kernel(
        A: T.Tensor(("M", columns), T.bfloat16),
        B: T.Tensor((columns, columns), T.bfloat16),
        C: T.Tensor(("M", columns), T.bfloat16),
    ):
        with T.Kernel(T.ceildiv(A.shape[0], rows), threads=128) as b:
            A_shared = T.alloc_shared((rows, 64), T.bfloat16)
            B_shared = T.alloc_shared((columns, 64), T.bfloat16)
            total = T.alloc_fragment((rows, columns), T.float32)
            T.clear(total)
            for k in T.Pipelined(columns // 64, num_stages=2):
                T.copy(A[b * rows, k * 64], A_shared)
                T.copy(B[0, k * 64], B_shared)
                T.gemm(A_shared, B_shared, total, transpose_B=True)
            T.copy(total, C[b * rows, 0])

    return kernel


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [(1 << 24) + 40, (1 << 25) + 1, (1 << 26) - 64])
def test_a_product(torch, target, rows):
    A, C = tensors(torch, (rows, 128), torch.bfloat16)
    A.view(-1).view(torch.int16).bitwise_and_(0x3FFF)  # no NaN
    times_one(target)(A, torch.eye(128, dtype=torch.bfloat16, device="cuda"), C)
    assert same(torch, A, C)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", SIZES)
def test_a_strided_loop(torch, target, size):
    """A counter that goes over all of the tensor in one block, and one that comes down."""

    @mt.kernel(target=target)
    def kernel(C: T.Tensor(("N",), T.uint8), step=100_000_007):
        N = C.shape[0]
        with T.Kernel(1, threads=32):
            for i in range(0, N, step):
                C[i] = T.cast(i // step + 1, T.uint8)
            for i in range(N - 1, -1, -step):
                C[i] = T.cast((N - 1 - i) // step + 101, T.uint8)

    _, C = tensors(torch, (size,), torch.uint8)
    kernel(C)
    step = 100_000_007
    up = C[::step][: (size - 1) // step + 1].tolist()
    down = [int(C[i]) for i in range(size - 1, -1, -step)]
    assert up == [n + 1 for n in range(len(up))]
    assert down == [n + 101 for n in range(len(down))]
    assert int(torch.count_nonzero(C)) == len(set(range(0, size, step)) | set(range(size - 1, -1, -step)))
