"""Microscaled products on gfx950: all formats against float64, in LLVM's assembly and under all schedules; which
formats, registers and bytes the instructions name; and what is refused, where."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.backends.amd.emit.warp import FORMATS
from minitile.ir.ops import thread
from minitile.layout import MFMA_SCALED, mfma_scales_a, mfma_scales_b, mma_accumulator, mma_operand_a, mma_operand_b
from minitile.target import TARGETS
from tests.backends.nvidia import harness
from tests.backends.nvidia.harness import Make, raw, run, width_of
from tests.backends.nvidia.test_warp import spread

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import gemm_mx
from gemm_mx import exact, operands, pack
from support import error

PAIRS = [("e4m3", "e4m3"), ("e5m2", "e4m3"), ("e4m3", "e2m1"), ("e2m1", "e5m2"), ("e2m1", "e2m1"), ("e2m3", "e3m2")]
SCHEDULES = [("lazy", 0), ("eager", 0), ("random", 0), ("random", 1)]


def product(a_name, b_name, size, seed=0, schedules=SCHEDULES[:1], **options):
    """Checks one problem; the kernel."""
    m, n, k = size
    (a, sa), (b, sb) = operands(m, n, k, a_name, b_name, seed)
    arrays = pack(a, a_name), pack(b, b_name), sa, sb
    c = np.full((m, n), np.nan, np.float32)
    options = {"block_M": 64, "block_N": 64, "threads": 128, **options}
    kernel = gemm_mx.gemm_mx(a_name, b_name).compile(*arrays, c, target="gfx950", **options)
    for schedule, number in schedules:
        c[:] = np.nan
        kernel.simulate(*arrays, c, schedule=schedule, seed=number)
        assert error(c, exact(a, sa) @ exact(b, sb).T) < 1e-6
    return kernel


@pytest.mark.parametrize(("a_name", "b_name"), PAIRS, ids=lambda name: name)
@pytest.mark.parametrize("k", [32, 224])
def test_formats(a_name, b_name, k):
    """K of a part of a tile and of more than one; rows and columns that fill no tile."""
    product(a_name, b_name, (43, 29, k), seed=k, block_M=32, block_N=32)


@pytest.mark.few_cases
def test_schedules():
    """Five tiles along K, several blocks; all orders in which memory may answer."""
    product("e2m1", "e4m3", (77, 45, 544), schedules=SCHEDULES)


@pytest.mark.parametrize(("a_name", "b_name"), PAIRS[::2], ids=lambda name: name)
def test_32x32(a_name, b_name):
    """K = 64 is half of what 16x16 takes."""
    kernel = product(a_name, b_name, (64, 96, 192), block_N=32, block_K=64, threads=64)
    assert set(re.findall(r"v_mfma\w+", kernel.text)) == {"v_mfma_scale_f32_32x32x64_f8f6f4"}


def test_no_rows_and_no_k():
    product("e4m3", "e2m1", (0, 5, 128))
    (_, sa), (_, sb) = operands(3, 5, 32, "e4m3", "e4m3")
    a, b = np.zeros((3, 0), ml_dtypes.float8_e4m3fn), np.zeros((5, 0), ml_dtypes.float8_e4m3fn)
    c = np.full((3, 5), np.nan, np.float32)
    gemm_mx.gemm_mx("e4m3", "e4m3").compile(
        *(a, b, sa[:, :0], sb[:, :0], c), target="gfx950", block_M=64, block_N=64, threads=128
    ).simulate(a, b, np.ascontiguousarray(sa[:, :0]), np.ascontiguousarray(sb[:, :0]), c)
    assert not c.any()


def test_aligned_rows_are_copied_past_the_registers():
    """And their scales through them."""
    kernel = product("e4m3", "e4m3", (64, 64, 512), schedules=SCHEDULES)
    assert re.search(r"buffer_load_dwordx4 .* lds", kernel.text)
    assert re.search(r"\tds_write_b(8|16|32)\b", kernel.text)
    assert "ds_write_b128" not in kernel.text


# Written otherwise ----------------------------------------------------------------------------------------------------


@mt.kernel
def other_forms(
    A: T.Tensor(("K", "M"), T.float8_e4m3fn),
    B: T.Tensor(("K", "N"), T.float8_e5m2),
    SFA: T.Tensor(("M", "KS"), T.uint8),
    SFB: T.Tensor(("N", "KS"), T.uint8),
    C: T.Tensor(("M", "N"), T.float32),
    block=64,
):
    """A and B with K first, scales in fragments, of which those of A are changed; halves of the tiles, one by one."""
    K = A.shape[0]
    with T.Kernel(T.ceildiv(C.shape[1], block), T.ceildiv(C.shape[0], block), threads=128) as (bx, by):
        A_shared = T.alloc_shared((256, block), A.dtype)
        B_shared = T.alloc_shared((256, block), B.dtype)
        SFB_shared = T.alloc_shared((block, 8), T.uint8)
        SFA_local = T.alloc_fragment((block, 4), T.uint8)
        C_local = T.alloc_fragment((block, block), T.float32)
        T.fill(C_local, 7.0)  # cleared by the first product
        for k in range(T.ceildiv(K, 256)):
            T.copy(A[k * 256, by * block], A_shared)
            T.copy(B[k * 256, bx * block], B_shared)
            T.copy(SFB[bx * block, k * 8], SFB_shared)
            for half in (0, 1):
                T.copy(SFA[by * block, k * 8 + half * 4], SFA_local)
                for i, j in T.Parallel(block, 4):
                    SFA_local[i, j] = SFA_local[i, j] + 1
                T.gemm_blockscaled(
                    A_shared[half * 128 : half * 128 + 128, :],
                    B_shared[half * 128 : half * 128 + 128, :],
                    C_local,
                    SFA_local,
                    SFB_shared[:, half * 4 : half * 4 + 4],
                    transpose_A=True,
                    clear_accum=k == 0 if half == 0 else False,
                )
        T.copy(C_local, C[by * block, bx * block])


def test_other_forms():
    (a, sa), (b, sb) = operands(96, 80, 512, "e4m3", "e5m2", seed=3)
    at, bt = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    c = np.full((96, 80), np.nan, np.float32)
    kernel = other_forms.compile(at, bt, sa, sb, c, target="gfx950")
    for schedule, seed in SCHEDULES:
        c[:] = np.nan
        kernel.simulate(at, bt, sa, sb, c, schedule=schedule, seed=seed)
        assert error(c, 2 * exact(a, sa) @ exact(b, sb).T) < 1e-6
    assert "ds_read_b64_tr_b8" in kernel.text


@pytest.mark.parametrize("in_registers", [True, False])
def test_packed_in_registers_and_in_parts(in_registers):
    @mt.kernel
    def kernel(
        A: T.Tensor((64, 128), T.uint8),
        B: T.Tensor((64, 256), T.float8_e4m3fn),
        SFA: T.Tensor((64, 8), T.uint8),
        SFB: T.Tensor((64, 8), T.uint8),
        C: T.Tensor((64, 64), T.float32),
    ):
        with T.Kernel(1, threads=128):
            A_shared, B_shared = T.alloc_shared((64, 128), A.dtype), T.alloc_shared((64, 256), B.dtype)
            sa, sb = T.alloc_shared((64, 8), T.uint8), T.alloc_shared((64, 8), T.uint8)
            A_local, C_local = T.alloc_fragment((64, 128), A.dtype), T.alloc_fragment((64, 64), T.float32)
            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.copy(SFA, sa)
            T.copy(SFB, sb)
            T.copy(A_shared, A_local)
            T.clear(C_local)
            form = {"transpose_B": True, "a_format": T.float4_e2m1fn}
            if in_registers:
                T.gemm_blockscaled(A_local, B_shared, C_local, sa, sb, **form)
            else:
                for h in range(2):  # halves of K: 64 bytes of A, 128 of B, 4 scales
                    T.gemm_blockscaled(
                        A_shared[:, h * 64 : h * 64 + 64],
                        B_shared[:, h * 128 : h * 128 + 128],
                        C_local,
                        sa[:, h * 4 : h * 4 + 4],
                        sb[:, h * 4 : h * 4 + 4],
                        **form,
                    )
            T.copy(C_local, C)

    (a, sa), (b, sb) = operands(64, 64, 256, "e2m1", "e4m3", seed=9)
    c = np.full((64, 64), np.nan, np.float32)
    arrays = pack(a, "e2m1"), b, sa, sb, c
    kernel.compile(*arrays, target="gfx950").simulate(*arrays, schedule="random")
    assert error(c, exact(a, sa) @ exact(b, sb).T) < 1e-6


def test_scales_in_packs():
    """As cuBLAS takes them: rows that do not fill a pack, and several words of K."""
    (a, sa), (b, sb) = operands(140, 130, 320, "e4m3", "e2m1")
    c = np.full((140, 130), np.nan, np.float32)
    arrays = [pack(a, "e4m3"), pack(b, "e2m1"), gemm_mx.pack_scales(sa), gemm_mx.pack_scales(sb), c]
    kernel = gemm_mx.gemm_mx_packed("e4m3", "e2m1")
    options = {"block_K": 256, "num_stages": 2, "threads": 256, "blocks": 2}
    kernel.compile(*arrays, target="gfx950", **options).simulate(*arrays, schedule="random")
    assert error(c, exact(a, sa) @ exact(b, sb).T) <= 1e-6


def test_extreme_scales():
    """0 is 2^-127, 254 is 2^127, 255 NaN: in its row, or its column, and there alone."""
    (a, sa), (b, sb) = operands(64, 64, 128, "e4m3", "e2m1", seed=5)
    sa[3], sb[5] = 0, 200
    sa[7, 2], sb[11, 0] = 255, 255
    arrays = pack(a, "e4m3"), pack(b, "e2m1"), sa, sb
    c = np.zeros((64, 64), np.float32)
    gemm_mx.gemm_mx("e4m3", "e2m1").compile(*arrays, c, target="gfx950", block_M=64, block_N=64, threads=128).simulate(
        *arrays, c
    )
    nan = np.zeros((64, 64), bool)
    nan[7], nan[:, 11] = True, True
    assert (np.isnan(c) == nan).all()
    sa[sa == 255], sb[sb == 255] = 0, 0
    reference = exact(a, sa) @ exact(b, sb).T
    rest = np.where(nan, 0, c)
    assert np.allclose(rest, np.where(nan, 0, reference), rtol=1e-5, atol=1e-6 * np.abs(reference).max(axis=1)[:, None])
    assert np.abs(np.delete(rest[3], 5)).max() < 1e-20 < 1e10 < np.abs(np.delete(rest, 3, axis=0)[:, 5]).max()


# Instructions ---------------------------------------------------------------------------------------------------------

CODES = {"e4m3": 0, "e5m2": 1, "e2m3": 2, "e3m2": 3, "e2m1": 4}  # "CDNA 4" ISA, cbsz and blgp of f8f6f4
NUMPY = {name: element for name, (_, element, _, _) in gemm_mx.FORMATS.items()}
BITS = {name: bits for name, (_, _, bits, _) in gemm_mx.FORMATS.items()}


# Scales by byte on 32x32 run into LLVM's gap: after 16 passes it misses one wait state of 20, if 19 instructions stand
# between (test_hazards.py).
WIDTHS = ("e4m3", "e2m3", "e2m1")  # one format of 8, 6 and 4 bits


@pytest.mark.parametrize(
    ("a_name", "b_name", "size", "packed"),
    [
        *((*pair, 16, True) for pair in itertools.product(CODES, repeat=2)),
        *((*pair, 32, True) for pair in itertools.product(WIDTHS, repeat=2)),
        *((name, name, 16, False) for name in WIDTHS),
    ],
)
def test_instruction(size, a_name, b_name, packed, monkeypatch):
    """4 × 1 × 1 instructions with the registers in the order that minitile.layout says: every pair of formats, each
    scale in a byte of a word or in a register of its own, what LLVM prints and what that computes."""
    monkeypatch.setattr(harness, "redirect", TARGETS["gfx950"])
    atom = MFMA_SCALED[size, BITS[a_name], BITS[b_name]]
    m, n, k = 4 * atom.m, atom.n, atom.k
    rng = np.random.default_rng(CODES[a_name] * 8 + CODES[b_name])
    a, b = (rng.integers(-4, 5, (rows, k)).astype(NUMPY[name]) for rows, name in ((m, a_name), (n, b_name)))
    c = rng.integers(-9, 10, (m, n)).astype(np.float32)
    scales = [rng.integers(124, 131, (rows, k // 32)).astype(np.uint8) for rows in (m, n)]
    a_bytes, b_bytes = pack(a, a_name).view(np.uint8), pack(b, b_name).view(np.uint8)
    once = (1, 1)
    layouts = {
        "a": mma_operand_a(a_bytes.shape, atom, once),
        "b": mma_operand_b(b_bytes.shape[::-1], atom, once),
        "c": mma_accumulator((m, n), atom, once),
        "sa": mfma_scales_a((m, k // 32), atom, once),
        "sb": mfma_scales_b((n, k // 32), atom, once),
    }
    tensors = {"a": a_bytes, "b": b_bytes.T, "c": c, "sa": scales[0], "sb": scales[1]}
    registers = {name: np.ascontiguousarray(spread(tensors[name], layouts[name])) for name in tensors}
    dtypes = {"a": "u8", "b": "u8", "c": "f32", "sa": "u8", "sb": "u8"}
    make = Make(dtypes, threads=64)
    values = {}
    for name in tensors:
        count = registers[name].shape[1]
        width = 1 if name in ("sa", "sb") and not packed else 8 if count == 24 else width_of(dtypes[name], count)
        values[name] = make.load(name, make.mul(make.thread(), count), count, width)
    result = make.emit(
        thread.MmaSync(
            *(values["a"], values["b"], values["c"], atom.name, (4, 1, 1)),
            a_scale=values["sa"],
            b_scale=values["sb"],
            formats=(a_name, b_name),
        )
    ).result
    make.store("c", make.mul(make.thread(), registers["c"].shape[1]), result, 4)
    text = run(make, *[raw(registers[name].reshape(-1)) for name in tensors], threads=64)
    reference = exact(a, scales[0]) @ exact(b, scales[1]).T + c
    assert np.array_equal(registers["c"], spread(reference, layouts["c"]).astype(np.float32))

    found = re.findall(r"v_mfma_scale_f32_(\w+)_f8f6f4 (.*)", text)
    assert {tile for tile, _ in found} == {f"{size}x{size}x{k}"}
    assert len(found) == 4
    bytes_of_a = []
    for _, rest in found:
        spans = [int(x) - int(y) + 1 for y, x in re.findall(r"v\[(\d+):(\d+)\]", rest)]
        assert spans[1:3] == [BITS[b_name], BITS[a_name]]  # A and B exchanged
        modifiers = dict(re.findall(r"(cbsz|blgp|op_sel|op_sel_hi):(\[[\d,]*\]|\d)", rest))
        assert int(modifiers.get("cbsz", 0)) == CODES[b_name] == FORMATS[b_name][0]
        assert int(modifiers.get("blgp", 0)) == CODES[a_name] == FORMATS[a_name][0]
        low, high = (eval(modifiers.get(name, "[0,0,0]")) for name in ("op_sel", "op_sel_hi"))
        assert low[0] == high[0] == 0
        bytes_of_a.append(low[1] + 2 * high[1])
        assert not re.search(r"\bs\d+|, \d+ op_sel", rest), "scales come from VGPRs"
    assert sorted(bytes_of_a) == ([0, 1, 2, 3] if packed else [0, 0, 0, 0])


# Refusals -------------------------------------------------------------------------------------------------------------


@mt.kernel
def one_tile(
    A: T.Tensor((64, 128), T.float8_e4m3fn),
    B: T.Tensor((64, 128), T.float8_e4m3fn),
    S: T.Tensor((64, 4), T.uint8),
    C: T.Tensor((64, 64), T.float32),
    arguments=(),
    accumulate="float32",
    scales=(64, 4),
    scale_dtype="uint8",
    in_tensor=False,
):
    with T.Kernel(1, threads=128):
        A_shared = T.alloc_shared((64, 128), A.dtype)
        S_shared = T.alloc_shared(scales, scale_dtype)
        C_local = T.alloc_fragment((64, 64), accumulate)
        T.copy(A, A_shared)
        T.clear(S_shared)
        T.clear(C_local)
        sf = S if in_tensor else S_shared
        T.gemm_blockscaled(A_shared, A_shared, C_local, sf, sf, **{"transpose_B": True, **dict(arguments)})
        T.copy(C_local, C)


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a", "gfx942"])
def test_other_targets(target):
    with pytest.raises(mt.MinitileError, match=f"{target} multiplies nothing with scales") as caught:
        one_tile.compile(target=target)
    assert "T.gemm_blockscaled(A_shared" in str(caught.value)
    assert "gfx950" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arguments": (("a_format", T.float4_e2m1fn),)}, "A is of e4m3: elements of e2m1 are packed in uint8"),
        ({"arguments": (("a_format", T.float16),)}, "a_format is minitile.f16"),
        ({"arguments": (("k_start", 128),)}, "k_start=128"),
        ({"arguments": (("sf_a_granularity_k", 16),)}, "scales of 16 and 32 elements"),
        ({"arguments": (("transpose_B", False),)}, "K is 128 and 64"),
        ({"scales": (64, 8)}, "SFA is 64×8, of 64 rows and K = 128"),
        ({"scale_dtype": "float32"}, "SFA is of f32"),
        ({"in_tensor": True}, "SFA is the tensor S"),
        ({"accumulate": "float16"}, "accumulates in float32, not f16"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_arguments(options, said):
    with pytest.raises(mt.MinitileError, match=re.escape(said)) as caught:
        one_tile.compile(target="gfx950", **options)
    assert "T.gemm_blockscaled(A_shared" in str(caught.value)


def by_buffer(C):
    T.alloc_shared((64, 64), T.float4_e2m1fn)


def by_cast(C):
    C[0, 0] = T.cast(C[0, 0], T.float6_e3m2fn)


def by_call(C):
    C[0, 0] = T.float6_e2m3fn(C[0, 0])


@pytest.mark.parametrize("body", [by_buffer, by_cast, by_call], ids=lambda f: f.__name__)
def test_no_values_below_a_byte(body):
    @mt.kernel
    def kernel(C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=64):
            body(C)

    with pytest.raises(mt.MinitileError, match="is no dtype of tensors, buffers or values") as caught:
        kernel.compile(target="gfx950")
    assert "T.float" in str(caught.value)


def test_no_tensors_below_a_byte():
    with pytest.raises(mt.MinitileError, match="is no dtype of tensors"):
        T.Tensor((64, 64), T.float4_e2m1fn)


def test_k_must_be_last_where_it_is_packed():
    @mt.kernel
    def kernel(A: T.Tensor((64, 64), T.uint8), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=64):
            A_shared = T.alloc_shared((64, 64), A.dtype)
            S = T.alloc_fragment((64, 4), T.uint8)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.copy(A, A_shared)
            T.clear(S)
            T.clear(C_local)
            T.gemm_blockscaled(A_shared, A_shared, C_local, S, S, a_format=T.float4_e2m1fn, b_format=T.float4_e2m1fn)

    with pytest.raises(mt.MinitileError, match="B: packed elements lie along K, which is its first dimension"):
        kernel.compile(target="gfx950")


def test_the_example(capsys):
    gemm_mx.run(a_name="e4m3", b_name="e2m1")
    assert "relative error" in capsys.readouterr().out
