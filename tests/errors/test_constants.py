"""Slips in constants, shapes and arguments, on every target: what the error says, where it points, the way out."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError, LaunchArgumentError, TypeMismatchError

TARGETS = ("sm_80", "sm_90a", "gfx942", "gfx950")


@mt.kernel
def too_large(A: T.Tensor((8,), T.float16)):
    with T.Kernel(1):
        A[0] = 1e6


@mt.kernel
def too_large_for_fp8(A: T.Tensor((8,), T.float8_e4m3fn)):
    with T.Kernel(1):
        A[0] = T.cast(-1000.0, T.float8_e4m3fn)


@mt.kernel
def fills_too_much(A: T.Tensor((64,), T.float16)):
    with T.Kernel(1):
        f = T.alloc_fragment((64,), T.float16)
        T.fill(f, 70000)
        T.copy(f, A)


@mt.kernel
def shifts(A: T.Tensor((8,), T.int32)):
    with T.Kernel(4) as bx:
        A[bx] = bx << 40


@mt.kernel
def shifts_back(A: T.Tensor((8,), T.int32)):
    with T.Kernel(4) as bx:
        A[bx] = bx >> -1


@mt.kernel
def divides(A: T.Tensor((8,), T.int32), n=0):
    with T.Kernel(4) as bx:
        A[bx // n] = 1


@mt.kernel
def remainder(A: T.Tensor((8,), T.int32), n=0):
    with T.Kernel(4) as bx:
        A[0] = bx % n


@mt.kernel
def truncates(A: T.Tensor((8,), T.int32), n=0):
    with T.Kernel(4) as bx:
        A[0] = T.truncdiv(bx, n)


@mt.kernel
def last_rows(A: T.Tensor((64,), T.float32), B: T.Tensor((32,), T.float32)):
    with T.Kernel(1):
        T.copy(A[-32:], B)


@mt.kernel
def but_the_last(A: T.Tensor((64,), T.float32), B: T.Tensor((32,), T.float32)):
    with T.Kernel(1):
        T.copy(A[:-32], B)


@mt.kernel
def backwards(A: T.Tensor((64,), T.float32), B: T.Tensor((32,), T.float32)):
    with T.Kernel(1):
        T.copy(A[40:8], B)


@mt.kernel
def one_name_for_two(A: T.Tensor((8, 8), T.float32)):
    with T.Kernel(2, 2) as block:
        A[block, 0] = 1.0


@mt.kernel
def two_names_for_one(A: T.Tensor((8, 8), T.float32)):
    with T.Kernel(2) as (bx, by):
        A[bx, by] = 1.0


@mt.kernel
def too_many_blocks(A: T.Tensor((8, 8), T.float32)):
    with T.Kernel(1 << 32) as bx:
        A[bx, 0] = 1.0


@mt.kernel
def not_transposed(A: T.Tensor((64, 32), T.float16), B: T.Tensor((128, 32), T.float16)):
    with T.Kernel(1):
        A_shared, B_shared = T.alloc_shared((64, 32), T.float16), T.alloc_shared((128, 32), T.float16)
        C_local = T.alloc_fragment((64, 128), T.float32)
        T.gemm(A_shared, B_shared, C_local)


@mt.kernel
def misspelt(A: T.Tensor((64, 64), T.float16)):
    with T.Kernel(1):
        A_shared, C_local = T.alloc_shared((64, 64), T.float16), T.alloc_fragment((64, 64), T.float32)
        T.gemm(A_shared, A_shared, C_local, trans_B=True)


@mt.kernel
def beyond_shared(A: T.Tensor((16,), T.float32)):
    with T.Kernel(1):
        s = T.alloc_shared((8,), T.float32)
        for i in T.Parallel(16):
            s[i] = A[i]


@mt.kernel
def before_shared(A: T.Tensor((16,), T.float32)):
    with T.Kernel(1):
        s = T.alloc_shared((8,), T.float32)
        for i in T.Parallel(8):
            s[7 - 2 * i] = A[i]


@mt.kernel
def beyond_local(A: T.Tensor((16,), T.float32)):
    with T.Kernel(1):
        own = T.alloc_local((4,), T.float32)
        for i in T.serial(5):
            own[i] = A[i]


@mt.kernel
def beyond_fragment(A: T.Tensor((8, 9), T.float32)):
    with T.Kernel(1):
        f = T.alloc_fragment((8, 8), T.float32)
        for i, j in T.Parallel(8, 9):
            f[i, j] = A[i, j]


FROM_THE_START = "indices count from the start only"
CASES = [
    (too_large, TypeMismatchError, "A[0] = 1e6", "A[0]", "1e+06 is too large for f16", "T.infinity(dtype)"),
    (
        too_large_for_fp8,
        TypeMismatchError,
        "A[0] = T.cast(-1000.0, T.float8_e4m3fn)",
        "T.cast(-1000.0, T.float8_e4m3fn)",
        "-1000 is too large for e4m3",
        "wider dtype",
    ),
    (fills_too_much, TypeMismatchError, "T.fill(f, 70000)", "", "70000 is too large for f16", "wider dtype"),
    (shifts, TypeMismatchError, "A[bx] = bx << 40", "bx << 40", "`<<` of i32 by 40 places", "wider dtype"),
    (shifts_back, TypeMismatchError, "A[bx] = bx >> -1", "bx >> -1", "`>>` of i32 by -1 places", "wider dtype"),
    (divides, TypeMismatchError, "A[bx // n] = 1", "bx // n", "`//` by zero", ""),
    (remainder, TypeMismatchError, "A[0] = bx % n", "bx % n", "`%` by zero", ""),
    (truncates, TypeMismatchError, "A[0] = T.truncdiv(bx, n)", "T.truncdiv(bx, n)", "`truncdiv` by zero", ""),
    (last_rows, LanguageError, "T.copy(A[-32:], B)", "A[-32:]", "in dimension 0 from -32 on", FROM_THE_START),
    (but_the_last, TypeMismatchError, "T.copy(A[:-32], B)", "A[:-32]", "has -32 elements", FROM_THE_START),
    (backwards, TypeMismatchError, "T.copy(A[40:8], B)", "A[40:8]", "has -32 elements", "the start is less"),
    (one_name_for_two, TypeMismatchError, "A[block, 0] = 1.0", "A[block, 0]", "not an integer", "take them apart"),
    (
        two_names_for_one,
        LanguageError,
        "with T.Kernel(2) as (bx, by):",
        "(bx, by)",
        "2 names for the indices of a block in a grid of rank 1",
        "",
    ),
    (
        too_many_blocks,
        LanguageError,
        "with T.Kernel(1 << 32) as bx:",
        "T.Kernel(1 << 32)",
        "a bound of the grid is 4294967296",
        "",
    ),
    (
        not_transposed,
        TypeMismatchError,
        "T.gemm(A_shared, B_shared, C_local)",
        "",
        "K is 32 and 128",
        "with transpose_A=False, transpose_B=True they fit",
    ),
    (
        misspelt,
        LanguageError,
        "T.gemm(A_shared, A_shared, C_local, trans_B=True)",
        "",
        "unexpected keyword argument 'trans_B'",
        "did you mean transpose_B?",
    ),
    (beyond_shared, TypeMismatchError, "s[i] = A[i]", "s[i]", "the index goes from 0 to 15", "`if i < 8`"),
    (
        before_shared,
        TypeMismatchError,
        "s[7 - 2 * i] = A[i]",
        "s[7 - 2 * i]",
        "goes from -7 to 7",
        "no elements outside",
    ),
    (beyond_local, TypeMismatchError, "own[i] = A[i]", "own[i]", "the local buffer own (4 f32)", "`if i < 4`"),
    (beyond_fragment, TypeMismatchError, "f[i, j] = A[i, j]", "f[i, j]", "in dimension 1 (size 8)", "`if i < 8`"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("kernel", "kind", "line", "caret", "text", "hint"), CASES, ids=lambda x: getattr(x, "__name__", "")
)
def test_slips(shows, target, kernel, kind, line, caret, text, hint):
    shows(lambda: kernel.compile(target=target), kind, line, [text], hint, caret=caret)


@mt.kernel
def just_fits(A: T.Tensor((8,), T.float16), B: T.Tensor((8,), T.float8_e5m2), s: T.Tensor((8,), T.int32)):
    with T.Kernel(1):
        A[0] = 65504.0
        A[1] = 65519  # rounds to it
        A[2] = float("inf")
        A[3] = -T.infinity(T.float16)
        B[0] = T.cast(57344.0, T.float8_e5m2)
        s[0] = s[0] << 31
        s[1] = s[1] >> 0
        buffer = T.alloc_shared((8,), T.int32)
        for i in T.Parallel(16):
            if i < 8:
                buffer[i] = i
        for i in T.Parallel(4):
            s[i + 2] = buffer[7 - 2 * i]


@pytest.mark.parametrize("target", TARGETS)
def test_what_just_fits(target):
    a, b = np.zeros(8, np.float16), np.zeros(8, ml_dtypes.float8_e5m2)
    s = np.array([1, 5, 0, 0, 0, 0, 0, 0], np.int32)
    just_fits.compile(target=target).simulate(a, b, s)
    assert a[:4].tolist() == [65504, 65504, np.inf, -np.inf]
    assert float(b[0]) == 57344
    assert s.tolist() == [-(1 << 31), 5, 7, 5, 3, 1, 0, 0]


def test_an_array_without_an_annotation(shows):
    @mt.kernel(target="sm_80")
    def kernel(A, B: T.Tensor((8,), T.float32)):
        with T.Kernel(1):
            B[0] = A[0, 0]

    a, b = np.zeros((1000, 1000), np.float32), np.zeros(8, np.float32)
    error = shows(
        lambda: kernel(a, b),
        LaunchArgumentError,
        "lambda: kernel(a, b),",
        ["is given an array for 'A' (shape (1000, 1000), float32), which is a compile-time parameter"],
        'A: T.Tensor(("M", "N"), T.float32)',
        caret="kernel(a, b)",
    )
    assert "0." not in str(error)


def test_an_unknown_dtype_of_a_tensor():
    with pytest.raises(LanguageError, match="unknown dtype 'float31'") as caught:
        T.Tensor((8,), "float31")
    assert 'T.Tensor((8,), "float31")' in caught.value.loc.excerpt()


TABLE = np.arange(100_000, dtype=np.float32)


@mt.kernel
def copies_a_list(A: T.Tensor(("M",), T.float32)):
    with T.Kernel(1):
        T.copy([1.0] * 500, A[0:500])


@mt.kernel
def fills_with_an_array(A: T.Tensor(("M",), T.float32)):
    with T.Kernel(1):
        f = T.alloc_fragment((64,), T.float32)
        T.fill(f, TABLE)


@mt.kernel
def indexes_by_a_list(A: T.Tensor(("M",), T.float32)):
    with T.Kernel(1):
        A[[0] * 1000] = 1.0


@mt.kernel
def looks_up(A: T.Tensor(("M",), T.float32)):
    with T.Kernel(4) as bx:
        A[bx] = TABLE[bx]


@pytest.mark.parametrize(
    ("kernel", "kind", "line", "caret", "text", "hint"),
    [
        (
            copies_a_list,
            TypeMismatchError,
            "T.copy([1.0] * 500, A[0:500])",
            "",
            "not [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...]",
            "",
        ),
        (
            fills_with_an_array,
            TypeMismatchError,
            "T.fill(f, TABLE)",
            "",
            "with ndarray of shape (100000,) and float32, which is no scalar",
            "",
        ),
        (
            indexes_by_a_list,
            TypeMismatchError,
            "A[[0] * 1000] = 1.0",
            "A[[0] * 1000]",
            "is [0, 0, 0, 0, 0, 0, ...], not an integer",
            "1000 values",
        ),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_no_dump(shows, kernel, kind, line, caret, text, hint):
    error = shows(lambda: kernel.compile(target="sm_80"), kind, line, [text], hint, caret=caret)
    assert max(map(len, str(error).splitlines())) < 200


def test_a_table_of_numpy():
    with pytest.raises(LanguageError) as caught:
        looks_up.compile(target="sm_80")
    assert "pass it as a tensor" in caught.value.hint
    assert caught.value.loc.excerpt().strip().startswith("A[bx] = TABLE[bx]")


def test_a_misspelt_option(shows):
    shows(
        lambda: looks_up.compile(taget="sm_80"),
        LaunchArgumentError,
        'lambda: looks_up.compile(taget="sm_80"),',
        ["has no compile-time parameter 'taget'"],
        "did you mean target?",
        caret='looks_up.compile(taget="sm_80")',
    )
