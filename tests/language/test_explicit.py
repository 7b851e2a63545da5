"""Roles, barriers and exchange between lanes, explicit: what is traced, what runs, what is refused."""

from __future__ import annotations

import os

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.ir.diagnostics import TargetError

ON_GPU = os.environ.get("MINITILE_GPU") == "1"


def run(kernel, *arguments, target="sm_90a", schedule="lazy"):
    """In the simulator, or with MINITILE_GPU=1 on the GPU."""
    compiled = kernel.compile(*arguments, target=target)
    if not ON_GPU:
        compiled.simulate(*arguments, schedule=schedule)
        return
    if schedule != "lazy":
        pytest.skip("a GPU has a schedule of its own")
    torch = pytest.importorskip("torch")
    there = [torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for a in arguments]
    kernel(*there)
    for array, result in zip(arguments, there, strict=True):
        if isinstance(array, np.ndarray):
            array[...] = result.cpu().numpy()


@mt.kernel
def lanes(X: T.Tensor((64,), T.float32), Y: T.Tensor((4, 64), T.float32), Z: T.Tensor((64,), T.int64)):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        x = X[tx]
        Y[0, tx] = T.shfl_xor(x, 5)
        Y[1, tx] = T.shfl_down(x, 3, width=8)
        Y[2, tx] = T.shfl_up(x, 2)
        Y[3, tx] = T.shfl_sync(x, 7, 16)
        T.sync_warp()
        small = T.cast(tx, T.int16)
        wide = T.cast(tx, T.int64) << 33
        odd = T.shfl_xor(tx % 3 == 0, 1)
        Z[tx] = (
            T.shfl_xor(wide, 1) + T.cast(T.shfl_xor(small, 2), T.int64) + T.if_then_else(odd, T.int64(100), T.int64(0))
        )


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_shuffles(target):
    x = np.random.default_rng(0).standard_normal(64).astype(np.float32)
    y, z = np.zeros((4, 64), np.float32), np.zeros(64, np.int64)
    run(lanes, x, y, z, target=target)
    i = np.arange(64)
    lane, warp = i % 32, i // 32 * 32
    down = np.where(lane % 8 + 3 < 8, lane + 3, lane)
    up = np.where(lane >= 2, lane - 2, lane)
    for row, source in enumerate([lane ^ 5, down, up, lane // 16 * 16 + 7]):
        assert np.array_equal(y[row], x[warp + source]), row
    assert np.array_equal(z, ((i ^ 1) << 33) + (i ^ 2) + np.where((i ^ 1) % 3 == 0, 100, 0))


@mt.kernel
def warps(X: T.Tensor((64,), T.int32), Y: T.Tensor((5, 64), T.int32)):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        x = X[tx]
        Y[0, tx] = T.warp_reduce_sum(x)
        Y[1, tx] = T.warp_reduce_max(x)
        Y[2, tx] = T.warp_reduce_min(x)
        Y[3, tx] = T.warp_reduce_bitand(x)
        Y[4, tx] = T.warp_reduce_bitor(x)


def test_warp_reductions():
    x = np.random.default_rng(0).integers(0, 1 << 20, 64).astype(np.int32) | 64
    y = np.zeros((5, 64), np.int32)
    run(warps, x, y, target="sm_80")
    for row, function in enumerate((np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or)):
        assert np.array_equal(y[row].reshape(2, 32), np.tile(function.reduce(x.reshape(2, 32), axis=1)[:, None], 32))


@mt.kernel
def numbers(X: T.Tensor((5, 256), T.int32)):
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        X[0, tx] = T.get_lane_idx()
        X[1, tx] = T.get_warp_idx()
        X[2, tx] = T.get_warp_idx_sync()
        X[3, tx] = T.get_warp_group_idx()
        X[4, tx] = T.cast(T.shuffle_elect(64), T.int32) + 2 * T.cast(T.shuffle_elect(0), T.int32)


def test_numbers():
    x = np.zeros((5, 256), np.int32)
    run(numbers, x, target="sm_80")
    i = np.arange(256)
    wanted = [i % 32, i // 32, i // 32, i // 128, (i % 64 == 0) + 2 * (i == 0)]
    assert np.array_equal(x, np.stack(wanted))


@mt.kernel
def handed_over(X: T.Tensor((128,), T.int32), Y: T.Tensor((128,), T.int32)):
    """One role writes and says so at a named barrier; the other one meets it there."""
    with T.Kernel(1, threads=256):
        s = T.alloc_shared((128,), T.int32)
        tx = T.get_thread_binding()
        with T.ws(0):
            s[tx] = X[tx] * 2
            T.named_barrier_arrive(3, 256)
        with T.ws(1):
            T.sync_threads(3, 256)
            Y[tx - 128] = s[255 - tx]


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_named_barrier(schedule):
    x = np.arange(128, dtype=np.int32)
    y = np.zeros_like(x)
    run(handed_over, x, y, schedule=schedule)
    assert np.array_equal(y, 2 * x[::-1])


@mt.kernel
def own_barriers(X: T.Tensor((128,), T.float32), Y: T.Tensor((2, 128), T.float32)):
    """Each role meets by itself between its own writes and reads, and in T.sync_threads."""
    with T.Kernel(1, threads=256):
        first = T.alloc_shared((128,), T.float32)
        second = T.alloc_shared((128,), T.float32)
        with T.ws(0):
            for i in T.Parallel(128):
                first[i] = X[i] + 1
            T.sync_threads()
            for i in T.Parallel(128):
                Y[0, i] = first[127 - i]
        with T.ws(1):
            row = T.alloc_fragment((128,), T.float32)
            total = T.alloc_fragment((1,), T.float32)
            T.copy(X, row)
            T.reduce_sum(row, total)
            T.copy(row, second)
            for i in T.Parallel(128):
                Y[1, i] = second[127 - i] + total[0]


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_roles_meet_by_themselves(schedule):
    x = np.random.default_rng(0).integers(0, 9, 128).astype(np.float32)
    y = np.zeros((2, 128), np.float32)
    run(own_barriers, x, y, schedule=schedule)
    assert np.array_equal(y, np.stack([x[::-1] + 1, x[::-1] + x.sum()]))
    ptx = own_barriers.compile(x, y, target="sm_90a").asm["ptx"]
    assert "bar.sync 0" not in ptx  # nothing is common
    assert "bar.sync 1, 128" in ptx
    assert "bar.sync 2, 128" in ptx


@mt.kernel
def parity(X: T.Tensor((128,), T.int32), n: T.int32):
    """A scalar that each role carries through the loop for itself."""
    with T.Kernel(1, threads=256):
        s = T.alloc_shared((128,), T.int32)
        full, free = T.alloc_barrier([128, 128]), T.alloc_barrier(128)
        turn = 0
        total = 0
        tx = T.get_thread_binding()
        for k in range(n):
            with T.ws(1):
                T.barrier_wait(free, turn ^ 1)
                s[tx - 128] = k * 128 + tx
                T.barrier_arrive(full[k % 1])
            with T.ws(0):
                T.barrier_wait(full[0], turn)
                total += s[127 - tx]
                T.barrier_arrive(free)
            turn = turn ^ 1
        with T.ws(0):
            X[tx] = total


@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_carried_scalars(n, schedule):
    x = np.zeros(128, np.int32)
    run(parity, x, n, schedule=schedule)
    assert np.array_equal(x, sum((k * 128 + 255 - np.arange(128) for k in range(n)), np.zeros(128, int)))


@mt.kernel
def by_condition(X: T.Tensor((384,), T.float32), Y: T.Tensor((3, 128), T.float32)):
    """Conditions on the thread's index, with operations of whole warpgroups inside, are roles."""
    with T.Kernel(1, threads=384):
        tx = T.get_thread_binding()
        row = T.alloc_fragment((128,), T.float32)
        most = T.alloc_fragment((1,), T.float32)
        scale = T.float32(1)
        if tx < 128:
            T.copy(X[0:128], row)
            T.reduce_max(row, most)
            for i in T.Parallel(128):
                Y[0, i] = most[0] - row[i]
            scale = T.float32(2)
        elif tx < 256:
            other = T.alloc_fragment((128,), T.float32)
            T.copy(X[128:256], other)
            for i in T.Parallel(128):
                Y[1, i] = other[i] * 3
        elif T.get_warp_group_idx() == 2:
            for i in T.Parallel(128):
                Y[2, i] = X[256 + i]
        if tx < 64:
            Y[2, tx] = scale


@pytest.mark.parametrize("schedule", ["lazy", "random"])
def test_conditions_are_roles(schedule):
    x = np.random.default_rng(0).standard_normal(384).astype(np.float32)
    y = np.zeros((3, 128), np.float32)
    run(by_condition, x, y, schedule=schedule)
    exact = np.stack([x[:128].max() - x[:128], 3 * x[128:256], x[256:]])
    exact[2, :64] = 2  # behind the roles, where all threads meet first
    assert np.array_equal(y, exact)
    assert str(by_condition.trace()).count("warp_groups") == 3


def lost(arrives):
    @mt.kernel
    def lost_arrival(A: T.Tensor((64, 256), T.float16), C: T.Tensor((64, 256), T.float16)):
        with T.Kernel(1, threads=256):
            S = T.alloc_shared((64, 64), A.dtype)
            data_is_ready = T.alloc_barrier(128)
            copy_is_done = T.alloc_barrier(128)
            for k in range(4):
                with T.ws(1):
                    T.barrier_wait(copy_is_done, (k + 1) % 2)
                    T.tma_copy(A[0, k * 64], S, barrier=data_is_ready)
                    if "ready" in arrives:
                        T.barrier_arrive(data_is_ready)
                with T.ws(0):
                    T.barrier_wait(data_is_ready, k % 2)
                    T.copy(S, C[0, k * 64])
                    if "done" in arrives:
                        T.barrier_arrive(copy_is_done)

    return lost_arrival


@pytest.mark.skipif(ON_GPU, reason="hangs")
def test_lost_arrivals_are_named():
    a = np.random.default_rng(0).standard_normal((64, 256)).astype(np.float16)
    c = np.zeros_like(a)
    run(lost("ready, done"), a, c)
    assert np.array_equal(a, c)
    for arrives, name in (("ready", "copy_is_done"), ("done", "data_is_ready")):
        with pytest.raises(mt.SimulationError, match="deadlock") as caught:
            run(lost(arrives), a, c)
        assert name in str(caught.value)
        assert "T.barrier_wait(data_is_ready" in str(caught.value)  # the first of those who wait


@pytest.mark.skipif(ON_GPU, reason="looks for races")
def test_unordered_roles_race():
    @mt.kernel
    def unordered(X: T.Tensor((128,), T.int32)):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((128,), T.int32)
            tx = T.get_thread_binding()
            with T.ws(0):
                s[tx] = tx
            with T.ws(1):
                X[tx - 128] = s[tx - 128]

    with pytest.raises(mt.RaceError):
        run(unordered, np.zeros(128, np.int32))


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["with T.ws(2):", "    pass"], "T.ws(2) in a kernel of 2 warpgroups"),
        (["with T.ws():", "    pass"], "T.ws() in a kernel"),
        (["bars = T.alloc_barrier([])"], "T.alloc_barrier([])"),
        (["bars = T.alloc_barrier(0)"], "counts go from 1"),
        (["T.barrier_arrive(T.alloc_barrier([1, 1]))"], "of 2 barriers at once"),
        (["T.barrier_arrive(T.alloc_barrier([1, 1])[2])"], "barrier 2 of 2"),
        (["T.barrier_wait(3, 0)"], "is no barrier"),
        (["T.barrier_wait(T.alloc_barrier(1), 2)"], "parities are 0 and 1"),
        (["T.tma_copy(A, S)"], "without a barrier"),
        (["T.tma_copy(S, A, barrier=T.alloc_barrier(1))"], "to a tensor with a barrier"),
        (["T.tma_copy(S, S)"], "between tensors and shared memory"),
        (["T.tma_store_wait(-1)"], "T.tma_store_wait(-1)"),
        (["T.set_max_nreg(100, 1)"], "T.set_max_nreg(100"),
        (["T.sync_threads(16, 128)"], "barriers are 0 to 15"),
        (["T.shfl_xor(1.0, 1, width=5)"], "width=5"),
        (["T.wait_wgmma(9)"], "T.wait_wgmma(9)"),
        (["for i in range(n):", "    with T.ws(0):", "        break"], "`break` in T.ws(0)"),
        (
            ["bar = T.alloc_barrier(1)", "if T.get_thread_binding() == 0:", "    T.tma_copy(A, S, barrier=bar)"],
            "under a condition that differs between threads",
        ),
    ],
)
def test_refused(lines, text, refuses, tmp_path):
    file = tmp_path / "module.py"
    body = "\n".join("        " + line for line in ["S = T.alloc_shared((8, 64), T.float32)", *lines])
    file.write_text(
        "import minitile.language as T\ndef kernel(A: T.Tensor((8, 64), T.float32), n: T.int32):\n"
        f"    with T.Kernel(1, threads=256):\n{body}\n"
    )
    names = {"__name__": "module", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec"), names)
    refuses(names["kernel"], text)


@pytest.mark.parametrize("store", [False, True])
def test_versions_begin_where_tma_wants(store):
    """Of two versions of 64 bytes the second one does not."""

    @mt.kernel
    def ring(A: T.Tensor((4, 16), T.float32)):
        with T.Kernel(1, threads=128):
            rows = T.alloc_shared((2, 1, 16), T.float32)
            landed = T.alloc_barrier(128)
            for k in range(4):
                if store:
                    for i in T.Parallel(16):
                        rows[k % 2, 0, i] = 1.0
                    T.tma_copy(rows[k % 2, :, :], A[k, 0])
                else:
                    T.tma_copy(A[k, 0], rows[k % 2, :, :], barrier=landed)
                    T.barrier_arrive(landed)
                    T.barrier_wait(landed, k % 2)
                    for i in T.Parallel(16):
                        A[k, i] = rows[k % 2, 0, i]

    with pytest.raises(mt.MinitileError, match="versions of 64 bytes do not all begin at multiples of 128"):
        ring.compile(np.zeros((4, 16), np.float32), target="sm_90a")


def test_fragments_stay_in_their_role():
    @mt.kernel
    def wandering(A: T.Tensor((64, 64), T.float32), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=256):
            x = T.alloc_fragment((64, 64), T.float32)
            with T.ws(0):
                T.copy(A, x)
            T.copy(x, C)

    with pytest.raises(mt.MinitileError, match="fragment 'x'"):
        wandering.compile(*(np.zeros((64, 64), np.float32),) * 2, target="sm_90a")


def test_other_targets():
    x = np.zeros((128,), np.int32)
    with pytest.raises(TargetError, match="sm_80"):
        handed_over.compile(x, x, target="sm_80")


def test_warp_specialize_off():
    @mt.kernel
    def product(A: T.Tensor((128, 64), T.float16), C: T.Tensor((64, 64), T.float32)):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((64, 32), A.dtype)
            B_shared = T.alloc_shared((64, 32), A.dtype)
            c = T.alloc_fragment((64, 64), T.float32)
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], A_shared)
                T.copy(A[64, k * 32], B_shared)
                T.gemm(A_shared, B_shared, c, transpose_B=True)
            T.copy(c, C)

    a, c = np.zeros((128, 64), np.float16), np.zeros((64, 64), np.float32)
    assert product.compile(a, c, target="sm_90a").launch_info.block[0] == 256
    assert product.compile(a, c, target="sm_90a", warp_specialize=False).launch_info.block[0] == 128
    off = mt.kernel(warp_specialize=False)(product.function)
    assert off.compile(a, c, target="sm_90a").launch_info.block[0] == 128


@mt.kernel
def row_maxima(C: T.Tensor((64, 32), T.float32)):
    with T.Kernel(1, threads=256):
        acc = T.alloc_fragment((64, 32), T.float32)
        row = T.alloc_fragment((64,), T.float32)
        with T.ws(0):
            T.fill(acc, 3.0)
            T.reduce_max(acc, row, dim=1)
            for i, j in T.Parallel(64, 32):
                acc[i, j] = acc[i, j] + row[i]
            T.copy(acc, C)


@mt.kernel
def filled(C: T.Tensor((64, 32), T.float32)):
    with T.Kernel(1, threads=256):
        acc = T.alloc_fragment((64, 32), T.float32)
        with T.ws(0):
            T.fill(acc, 6.0)
            T.copy(acc, C)


@pytest.mark.parametrize("kernel", [row_maxima, filled])
def test_a_constant_tile_of_a_role_lies_in_its_threads(kernel: mt.Kernel) -> None:
    """Not in all threads of the block, of which some never come."""
    c = np.full((64, 32), np.nan, np.float32)
    kernel.compile(c, target="sm_90a").simulate(c)
    assert (c == 6.0).all()


@mt.kernel
def ring(X: T.Tensor((4, 256), T.float32), Y: T.Tensor((4, 256), T.float32), rounds=3):
    """Each block hands its vector to the next one of the cluster, which says when it has taken it."""
    with T.Kernel(4, threads=128, cluster=4) as bx:
        mine, next_ = T.alloc_shared((256,), T.float32), T.alloc_fragment((256,), T.float32)
        full, free = T.alloc_cluster_barrier(128), T.alloc_cluster_barrier(128)
        rank = T.block_rank_in_cluster()
        there = T.map_shared_rank(mine, (rank + 1) % 4)
        T.copy(X[bx, 0], next_)
        for r in T.serial(rounds):
            T.mbarrier_wait_parity(free, (r + 1) % 2)
            for i in T.Parallel(256):
                there[i] = next_[i] + 1
            T.mbarrier_arrive(full, (rank + 1) % 4)
            T.mbarrier_wait_parity(full, r % 2)
            T.copy(mine, next_)
            T.mbarrier_arrive(free, (rank + 3) % 4)
        T.copy(next_, Y[bx, 0])
        T.cluster_sync()


@pytest.mark.parametrize("rounds", [0, 1, 4])
@pytest.mark.parametrize("schedule", ["eager", "lazy", "random"])
def test_barriers_of_other_blocks(rounds, schedule):
    x = np.random.default_rng().random((4, 256), np.float32)
    y = np.zeros_like(x)
    compiled = ring.compile(x, y, target="sm_90a", rounds=rounds)
    compiled.simulate(x, y, schedule=schedule)
    for _ in range(rounds):
        x = np.roll(x, 1, axis=0) + np.float32(1)
    np.testing.assert_array_equal(y, x)


def test_a_barrier_of_the_block_is_its_own(refuses):
    def kernel():
        with T.Kernel(2, threads=128, cluster=2):
            T.mbarrier_arrive(T.alloc_barrier(128), 0)

    refuses(kernel, "T.alloc_cluster_barrier")
