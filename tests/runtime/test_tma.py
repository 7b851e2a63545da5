"""Tensor maps and clusters at work: hand-written sm_90a PTX copies a box into shared memory by TMA and writes the bytes
out as they lie there. The same runs go through the simulator and, with MINITILE_GPU=1, a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.driver.dispatch import Executable
from minitile.driver.simulate import simulate
from minitile.ir.diagnostics import LaunchArgumentError
from minitile.runtime.launch_info import LaunchInfo, Param, ScalarArg, TensorArg, TensorMapParam

LOAD_BOX = """.version 8.0
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 smem[];
.visible .entry load_box(
    .param .u32 x, .param .align 64 .b8 map[128], .param .u64 out, .param .u32 y, .param .u32 z
)
.reqntid 128
{
    .reg .pred %p;
    .reg .b32 %smem, %bar, %thread, %x, %y, %z, %at, %word;
    .reg .b64 %map, %out, %to;
    ld.param.u32 %x, [x];
    ld.param.u32 %y, [y];
    ld.param.u32 %z, [z];
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.b64 %map, map;
    cvta.param.u64 %map, %map;
    mov.u32 %smem, smem;
    add.u32 %bar, %smem, BYTES;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %p, %thread, 0;
    @%p bra started;
    mbarrier.init.shared::cta.b64 [%bar], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], BYTES;
    cp.async.bulk.tensor.RANKd.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%smem], [%map, {COORDS}], [%bar];
started:
    bar.sync 0;
landing:
    mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], 0;
    @!%p bra landing;
    shl.b32 %at, %thread, 2;
words:
    setp.ge.u32 %p, %at, BYTES;
    @%p bra done;
    add.u32 %word, %smem, %at;
    ld.shared.u32 %word, [%word];
    cvt.u64.u32 %to, %at;
    add.u64 %to, %out, %to;
    st.global.u32 [%to], %word;
    add.u32 %at, %at, 512;
    bra words;
done:
    ret;
}
"""

RANKS = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry ranks(.param .u64 out)
{
    .reg .b32 %block, %rank, %size;
    .reg .b64 %out, %at;
    ld.param.u64 %out, [out];
    cvta.to.global.u64 %out, %out;
    mov.u32 %block, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %size, %cluster_nctarank;
    mad.lo.u32 %rank, %size, 10, %rank;
    mul.wide.u32 %at, %block, 4;
    add.u64 %out, %out, %at;
    st.global.u32 [%out], %rank;
    ret;
}
"""


def in_simulator(info, ptx, *args):
    Executable(info, ptx, simulate=lambda given: simulate(info, ptx, given))(*args)


def on_gpu(info, ptx, *args):
    torch = pytest.importorskip("torch")
    there = [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in args]
    Executable(info, ptx)(*there)
    for here, tensor in zip(args, there, strict=True):
        if isinstance(here, np.ndarray):
            here[...] = tensor.cpu().numpy()


everywhere = pytest.mark.parametrize("run", [in_simulator, pytest.param(on_gpu, marks=pytest.mark.gpu)])


def load_box(run, array, tensor_map, x, y, z=0):
    """The bytes in shared memory of the box of `array` at (x, y, z), innermost first."""
    size = int(np.prod(tensor_map.box)) * array.itemsize
    rank = len(tensor_map.box)
    ptx = LOAD_BOX.replace("BYTES", str(size)).replace("RANK", str(rank))
    ptx = ptx.replace("COORDS", ", ".join(["%x", "%y", "%z"][:rank]))
    scalars = tuple(ScalarArg(name, "i32") for name in "xyz")
    numbers = {name: Param(name, "i32", ("scalar", name)) for name in "xyz"}
    info = LaunchInfo(
        entry="load_box",
        args=(TensorArg("A", tensor_map.dtype, ("M", "N")), TensorArg("out", "u8", (size,)), *scalars),
        params=(numbers["x"], tensor_map, Param("out", "pointer", ("pointer", "out")), numbers["y"], numbers["z"]),
        grid=(1, 1, 1),
        block=(128, 1, 1),
        dynamic_shared=size + 8,
    )
    out = np.zeros(size, np.uint8)
    run(info, ptx, array, out, x, y, z)
    return out


def as_it_lies(box, swizzle):
    """The bytes of a box (rows, columns) in shared memory. A swizzle exchanges the 16-byte chunks of a row, which is as
    wide as the swizzle, by the number of the 128-byte line that the row lies in."""
    rows = box.reshape(len(box), -1).view(np.uint8).reshape(len(box), -1, 16)
    out = np.empty_like(rows)
    chunks = rows.shape[1]
    for r in range(len(rows)):
        line = r * chunks // 8
        for chunk in range(chunks):
            out[r, chunk ^ line % chunks if swizzle else chunk] = rows[r, chunk]
    return out.reshape(-1)


def matrix(dtype, shape=(100, 72)):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


@everywhere
@pytest.mark.parametrize(("x", "y"), [(8, 5), (64, 91), (-4, -3), (72, 0), (-8, 96)])
@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_boxes(run, swizzle, x, y):
    array = matrix(np.float32)
    columns = (swizzle or 64) // 4
    dims = ("dim", "M"), ("dim", "N")
    tensor_map = TensorMapParam("map", "A", "f32", dims, dims[1:], (16, columns), swizzle)
    padded = np.pad(array, 128)
    want = padded[128 + y : 144 + y, 128 + x : 128 + x + columns]
    assert np.array_equal(load_box(run, array, tensor_map, x, y), as_it_lies(want, swizzle))


@everywhere
def test_rounded_to_tf32(run):
    """To nearest, ties to even, over the largest number to infinity; what is no number stays."""
    tie = np.float32(2.0**-11)
    special = [1 + tie, 1 + 3 * tie, 1 + tie / 2, 1 + 1.5 * tie, np.inf, -np.inf, np.nan, 3.4028235e38, 1e-40, -0.0]
    array = matrix(np.float32, (8, 32))
    array[0, : len(special)] = special
    dims = ("dim", "M"), ("dim", "N")
    tensor_map = TensorMapParam("map", "A", "f32", dims, dims[1:], (8, 32), 0, tf32=True)
    found = load_box(run, array, tensor_map, 0, 0).view(np.float32).reshape(8, 32)
    step = 2.0 ** (np.floor(np.log2(np.abs(array[1:].astype(np.float64)))) - 10)
    assert np.array_equal(found[1:], np.round(array[1:] / step) * step)
    want = [1, 1 + 4 * tie, 1, 1 + 2 * tie, np.inf, -np.inf, np.nan, np.inf]
    assert np.array_equal(found[0, :8], np.array(want, np.float32), equal_nan=True)
    assert abs(found[0, 8] - array[0, 8]) <= 2.0**-137
    assert np.signbit(found[0, 9])


@everywhere
def test_filled_with_nan(run):
    array = matrix(np.float16)
    dims = ("dim", "M"), ("dim", "N")
    tensor_map = TensorMapParam("map", "A", "f16", dims, dims[1:], (8, 64), 128, fill="nan")
    found = load_box(run, array, tensor_map, 40, 96)
    box = np.pad(array, 64, constant_values=np.nan)[160:168, 104:168]
    plain = np.empty_like(found).reshape(8, 8, 16)
    for r in range(8):
        for chunk in range(8):
            plain[r, chunk] = found.reshape(8, 8, 16)[r, chunk ^ r]
    assert np.array_equal(plain.reshape(8, -1).view(np.float16), box, equal_nan=True)


@everywhere
def test_a_map_of_halves(run):
    """A row of 128 elements as two halves of 64, the halves outermost: one copy fills both."""
    array = matrix(np.float16, (40, 128))
    rows = ("dim", "M")
    columns = ("dim", "N")
    dims = (("floordiv", columns, 64), rows, 64)
    tensor_map = TensorMapParam("map", "A", "f16", dims, (64, columns), (2, 16, 64), 128)
    found = load_box(run, array, tensor_map, 0, 32)
    padded = np.pad(array, ((0, 8), (0, 0)))
    want = [as_it_lies(np.ascontiguousarray(padded[32:48, half : half + 64]), 128) for half in (0, 64)]
    assert np.array_equal(found, np.concatenate(want))


@everywhere
def test_clusters(run):
    info = LaunchInfo(
        entry="ranks",
        args=(TensorArg("out", "i32", (8,)),),
        params=(Param("out", "pointer", ("pointer", "out")),),
        grid=(8, 1, 1),
        block=(1, 1, 1),
        cluster=(4, 1, 1),
    )
    out = np.zeros(8, np.int32)
    run(info, RANKS, out)
    assert out.tolist() == [40, 41, 42, 43] * 2


def test_the_simulator_keeps_the_drivers_rules():
    dims = ("dim", "M"), ("dim", "N")
    for columns, box, words in ((70, (16, 32), "a stride of 280 bytes"), (72, (16, 64), "its box is 256 bytes wide")):
        tensor_map = TensorMapParam("map", "A", "f32", dims, dims[1:], box, 128)
        with pytest.raises(LaunchArgumentError, match=f"A cannot be copied by TMA: .*{words}"):
            load_box(in_simulator, matrix(np.float32, (100, columns)), tensor_map, 0, 0)


@everywhere
@pytest.mark.parametrize("shape", [(0, 72), (8, 0), (0, 0)])
def test_zeros_are_loaded_from_an_empty_tensor(run, shape):
    dims = ("dim", "M"), ("dim", "N")
    tensor_map = TensorMapParam("map", "A", "f32", dims, dims[1:], (16, 32), 128)
    assert (load_box(run, np.ones(shape, np.float32), tensor_map, 0, 0) == 0).all()
