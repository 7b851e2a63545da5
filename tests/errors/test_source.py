"""Kernels that break a rule of the language: shapes, dtypes, constants, conditions, the extent of a Kernel."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import LanguageError, TypeMismatchError


@mt.kernel
def copies_shapes(A: T.Tensor((128, 64), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((64, 32), T.float32)
        T.copy(A[0:64, 0:64], S)


@mt.kernel
def copies_dtypes(A: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((64, 64), T.int32)
        T.copy(A, S)


@mt.kernel
def multiplies_shapes(A: T.Tensor((64, 48), T.float16), B: T.Tensor((64, 32), T.float16)):
    with T.Kernel(1):
        A_shared = T.alloc_shared((64, 48), T.float16)
        B_shared = T.alloc_shared((64, 32), T.float16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.gemm(A_shared, B_shared, C_local, transpose_B=True)


@mt.kernel
def multiplies_dtypes(A: T.Tensor((64, 64), T.float16)):
    with T.Kernel(1):
        A_shared = T.alloc_shared((64, 64), T.float16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.gemm(A_shared, B_shared, C_local)


@mt.kernel
def accumulates(A: T.Tensor((64, 64), T.bfloat16)):
    with T.Kernel(1):
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.bfloat16)
        T.gemm(A_shared, A_shared, C_local)


@mt.kernel
def stores_dtypes(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.int32)):
    with T.Kernel(1):
        for i in T.Parallel(64):
            B[i] = A[i]


@mt.kernel
def stores_shapes(A: T.Tensor((64, 64), T.float32), B: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        for i, j in T.Parallel(64, 64):
            B[i, j] = A[i, j]


@mt.kernel
def stores_a_tile(C: T.Tensor((64, 64), T.float32)):
    with T.Kernel(1):
        C_local = T.alloc_fragment((64, 32), T.float32)
        T.clear(C_local)
        T.copy(C_local, C[0:64, 0:64])


@pytest.mark.parametrize(
    ("kernel", "line", "texts", "hint"),
    [
        (
            copies_shapes,
            "T.copy(A[0:64, 0:64], S)",
            ["64×64 from the tensor A (128×64 f32)", "64×32 in the shared buffer S"],
            "",
        ),
        (copies_dtypes, "T.copy(A, S)", ["f32 is not cast to i32 silently"], "T.cast(…, T.int32)"),
        (
            multiplies_shapes,
            "T.gemm(A_shared, B_shared, C_local, transpose_B=True)",
            ["K is 48 and 32"],
            "already applied",
        ),
        (multiplies_dtypes, "T.gemm(A_shared, B_shared, C_local)", ["A is f16, B is bf16"], "one dtype"),
        (accumulates, "T.gemm(A_shared, A_shared, C_local)", ["accumulates in f32, not bf16"], ""),
        (stores_dtypes, "B[i] = A[i]", ["f32 is not cast to i32 silently"], "T.cast(…, T.int32)"),
        (stores_shapes, "B[i, j] = A[i, j]", ["(64 f32) has 1 dimensions and is indexed with 2"], ""),
        (
            stores_a_tile,
            "T.copy(C_local, C[0:64, 0:64])",
            ["64×32 from the fragment C_local", "64×64 in the tensor C"],
            "",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_mismatches(shows, kernel, line, texts, hint):
    caret = line.split(" = ")[0]  # of a store, the place that is stored to
    shows(lambda: kernel.compile(target="sm_80"), TypeMismatchError, line, texts, hint, caret)


@mt.kernel
def run_time_shape(A: T.Tensor(("M", 64), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((A.shape[0], 64), T.float32)
        T.copy(A, S)


@mt.kernel
def run_time_threads(A: T.Tensor((64,), T.float32), n: T.int32):
    with T.Kernel(1, threads=n):
        A[0] = 1.0


@mt.kernel
def run_time_extent(A: T.Tensor(("M",), T.float32)):
    with T.Kernel(1):
        for i in T.Parallel(A.shape[0]):
            A[i] = 1.0


@mt.kernel
def run_time_stages(A: T.Tensor(("M",), T.float32), n: T.int32):
    with T.Kernel(1):
        for i in T.Pipelined(4, num_stages=n):
            A[i] = 1.0


@pytest.mark.parametrize(
    ("kernel", "line", "caret", "text"),
    [
        (
            run_time_shape,
            "S = T.alloc_shared((A.shape[0], 64), T.float32)",
            "T.alloc_shared((A.shape[0], 64), T.float32)",
            "the shape of T.alloc_shared",
        ),
        (run_time_threads, "with T.Kernel(1, threads=n):", "T.Kernel(1, threads=n)", "threads"),
        (run_time_extent, "for i in T.Parallel(A.shape[0]):", "T.Parallel(A.shape[0])", "an extent of T.Parallel"),
        (run_time_stages, "for i in T.Pipelined(4, num_stages=n):", "T.Pipelined(4, num_stages=n)", "num_stages"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_run_time_values_where_constants_are_needed(shows, kernel, line, caret, text):
    error = shows(
        lambda: kernel.compile(target="sm_80"),
        LanguageError,
        line,
        [text, "must be known at compile time"],
        "compile-time",
        caret,
    )
    assert "a plain default" in error.hint  # how to make it one


@mt.kernel
def asks_a_tensor(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        if A > 0:
            A[0] = 1.0


@mt.kernel
def asks_a_fragment(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        F = T.alloc_fragment((64,), T.float32)
        T.copy(A, F)
        if F:
            A[0] = 1.0


def test_if_on_a_tensor(shows):
    shows(
        lambda: asks_a_tensor.compile(target="sm_80"),
        LanguageError,
        "if A > 0:",
        ["the tensor A (64 f32) as a whole"],
        "T.Parallel",
        caret="A > 0",
    )
    shows(
        lambda: asks_a_fragment.compile(target="sm_80"),
        LanguageError,
        "if F:",
        ["the fragment F (64 f32) as a condition"],
        "index the element you mean",
        caret="F",
    )


@mt.kernel
def by_numpy(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        for i in T.Parallel(64):
            A[i] = np.exp(A[i]) * np.exp(0.5)


def test_functions_of_numpy(shows):
    shows(
        lambda: by_numpy.compile(target="sm_80"),
        LanguageError,
        "A[i] = np.exp(A[i]) * np.exp(0.5)",
        ["NumPy's exp of a run-time value"],
        "use the T.* function",
        caret="np.exp(A[i])",
    )


@mt.kernel
def after_the_kernel(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((64,), T.float32)
        T.copy(A, S)
    T.copy(S, A)


@mt.kernel
def before_the_kernel(A: T.Tensor((64,), T.float32)):
    S = T.alloc_shared((64,), T.float32)
    with T.Kernel(1):
        T.copy(A, S)


def test_a_buffer_outside_its_kernel(shows):
    shows(
        lambda: after_the_kernel.compile(target="sm_80"),
        LanguageError,
        "T.copy(S, A)",
        ["outside T.Kernel"],
        "with T.Kernel",
    )
    shows(
        lambda: before_the_kernel.compile(target="sm_80"),
        LanguageError,
        "S = T.alloc_shared((64,), T.float32)",
        ["outside T.Kernel"],
        "with T.Kernel",
        caret="T.alloc_shared((64,), T.float32)",
    )


def leaves(S):
    return S[0] + 1.0


@mt.kernel
def in_a_helper(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        S = T.alloc_shared((64,), T.float16)
        A[0] = leaves(S) + T.bfloat16(1)


def test_errors_in_helpers_show_who_called(shows):
    """f16 + 1.0 is f16, which does not mix with bf16: an error in the kernel; one in the helper shows both."""
    shows(
        lambda: in_a_helper.compile(target="sm_80"),
        LanguageError,
        "A[0] = leaves(S) + T.bfloat16(1)",
        ["f16 and bf16"],
        "cast both to T.float32",
        caret="leaves(S) + T.bfloat16(1)",
    )

    def helper(S):
        return S[64]

    @mt.kernel
    def kernel(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1):
            S = T.alloc_shared((64,), T.float32)
            A[0] = helper(S)

    error = shows(
        lambda: kernel.compile(target="sm_80"),
        LanguageError,
        "return S[64]",
        ["index 64 is outside dimension 0 (size 64)", "called from", "A[0] = helper(S)"],
        caret="S[64]",
    )
    assert error.loc.caller.function == "kernel"


@mt.kernel
def standing_still(A: T.Tensor((64,), T.float32)):
    with T.Kernel(1):
        for i in T.serial(0, 64, 0):
            A[i] = 1.0


@mt.kernel
def fewer_than_no_blocks(A: T.Tensor((64,), T.float32), blocks=-1):
    with T.Kernel(1, blocks):
        A[0] = 1.0


def test_impossible_counts(shows):
    shows(
        lambda: standing_still.compile(target="sm_80"),
        LanguageError,
        "for i in T.serial(0, 64, 0):",
        ["the step of T.serial is 0"],
        caret="T.serial(0, 64, 0)",
    )
    shows(
        lambda: fewer_than_no_blocks.compile(target="sm_80"),
        LanguageError,
        "with T.Kernel(1, blocks):",
        ["a bound of the grid is -1"],
        "no-op",
        caret="T.Kernel(1, blocks)",
    )


def test_a_buffer_of_another_kernel(shows):
    kept = []

    @mt.kernel
    def keeps(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1):
            S = T.alloc_shared((64,), T.float32)
            T.copy(A, S)
            kept.append(S)

    @mt.kernel
    def uses(A: T.Tensor((64,), T.float32)):
        with T.Kernel(1):
            T.copy(kept[0], A)

    keeps.compile(target="sm_80")
    texts = ["the shared buffer S (64 f32) is used outside the T.Kernel block"]
    shows(lambda: uses.compile(target="sm_80"), LanguageError, "T.copy(kept[0], A)", texts)
    with pytest.raises(LanguageError, match="only while a kernel is traced"):
        kept[0][0]
