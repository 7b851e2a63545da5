"""Programs of threads: dimensions of the block, disjoint accesses of divergent threads, barriers with numbers, and
the program's word where nothing can be proved. Each runs on every target, checked for races, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import minitile as mt
import minitile.language as T

TARGETS = ("sm_80", "sm_90a", "gfx950")
I32 = np.int32


@pytest.fixture(params=TARGETS)
def run(request):
    """run(kernel, *arrays): compiled and simulated in place; the compiled kernel."""
    if request.param.startswith("gfx"):
        pytest.importorskip("llvmlite")

    def go(kernel, *args, **options):
        compiled = kernel.compile(*args, target=request.param, **options)
        compiled.simulate(*args, schedule="random", seed=1)
        return compiled

    return go


def barriers(compiled) -> int:
    return compiled.asm["thread_ir"].count("  barrier")


# Dimensions -----------------------------------------------------------------------------------------------------------


@mt.kernel
def dimensions(C: T.Tensor((192, 3), T.int32)):
    with T.Kernel(1, threads=(8, 4, 6)):
        x, y, z = T.get_thread_bindings()
        at = (z * T.get_thread_extent(1) + y) * T.get_thread_extent(0) + x
        C[at, 0] = x
        C[at, 1] = T.get_thread_binding(1)
        C[at, 2] = T.get_thread_binding(2)


def test_a_block_has_up_to_three_dimensions_of_which_x_goes_fastest(run):
    c = np.full((192, 3), -1, I32)
    compiled = run(dimensions, c)
    t = np.arange(192)
    assert np.array_equal(c, np.stack([t % 8, t // 8 % 4, t // 32], 1))
    assert compiled.launch_info.block == (192, 1, 1)
    assert barriers(compiled) == 0  # the three columns are different places


@mt.kernel
def one_dimension(C: T.Tensor((64, 3), T.int32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for d in T.unroll(3):
            C[t, d] = T.get_thread_binding(d)


def test_a_dimension_that_is_not_named_has_one_thread():
    c = np.full((64, 3), -1, I32)
    one_dimension.compile(c, target="sm_80").simulate(c)
    assert np.array_equal(c, np.stack([np.arange(64), np.zeros(64), np.zeros(64)], 1))


def test_other_dimensions_are_errors(refuses):
    def fourth():
        with T.Kernel(1, threads=64):
            T.get_thread_binding(3)

    def four():
        with T.Kernel(1, threads=(2, 2, 2, 8)):
            pass

    refuses(fourth, "dimensions are 0, 1, 2")
    refuses(four, "a block has 1 to 3 dimensions")


@mt.kernel
def transposed(X: T.Tensor(("M", "N"), T.float32), Y: T.Tensor(("N", "M"), T.float32)):
    with T.Kernel(T.ceildiv(X.shape[1], 16), T.ceildiv(X.shape[0], 16), threads=(16, 8)) as (bx, by):
        x, y = T.get_thread_binding(0), T.get_thread_binding(1)
        s = T.alloc_shared((16, 17), T.float32)
        for k in range(0, 16, 8):
            s[y + k, x] = X[by * 16 + y + k, bx * 16 + x]
        for k in range(0, 16, 8):
            if bx * 16 + y + k < X.shape[1] and by * 16 + x < X.shape[0]:
                Y[bx * 16 + y + k, by * 16 + x] = s[x, y + k]


def test_two_dimensions_of_threads_through_shared_memory(run):
    x = np.random.default_rng(0).random((21, 35)).astype(np.float32)
    y = np.zeros((35, 21), np.float32)
    run(transposed, x, y)
    assert np.array_equal(y, x.T)


# Disjoint accesses under conditions that differ -----------------------------------------------------------------------


@mt.kernel
def rows(P: T.Tensor((2, 64), T.int32), n: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t < n:
            P[0, t] = t
            P[1, t] = -t


@mt.kernel
def columns(P: T.Tensor(("N", 2), T.int32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t < P.shape[0]:
            P[t, 0] = t
            P[t, 1] = -P[t, 0]


@mt.kernel
def strided(P: T.Tensor(("N", 4), T.int32)):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        for k in range(t, P.shape[0], 64):
            for q in range(4):
                P[k, q] = P[k, q] + q
            P[k, 0] = P[k, 3]


@mt.kernel
def counted(P: T.Tensor((2, "N"), T.int32)):
    with T.Kernel(1, threads=64):
        k = T.get_thread_binding()
        while k < P.shape[1]:
            P[0, k] = k
            P[1, k] = P[0, k] + 1
            k += 64


@mt.kernel
def runs_of_four(P: T.Tensor((256,), T.int32), n: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t < n:
            for q in range(1, 4):
                P[t * 4 + q] += P[t * 4 + q - 1]


@mt.kernel
def halves(P: T.Tensor((128,), T.int32), n: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t < n:
            P[t] = t
            P[t + n] = -t


def test_dimensions_that_differ_keep_threads_apart(run):
    p = np.full((2, 64), 7, I32)
    run(rows, p, 40)
    assert np.array_equal(p[:, :40], np.stack([np.arange(40), -np.arange(40)]))
    assert (p[:, 40:] == 7).all()
    p = np.full((50, 2), 7, I32)
    run(columns, p)
    assert np.array_equal(p, np.stack([np.arange(50), -np.arange(50)], 1))


def test_strided_loops_keep_threads_apart(run):
    p = np.random.default_rng(0).integers(0, 99, (150, 4)).astype(I32)
    want = p + np.arange(4)
    want[:, 0] = want[:, 3]
    run(strided, p)
    assert np.array_equal(p, want)
    p = np.zeros((2, 100), I32)
    run(counted, p)
    assert np.array_equal(p, np.stack([np.arange(100), np.arange(100) + 1]))
    p = np.random.default_rng(0).integers(0, 99, 256).astype(I32)
    want = p.reshape(64, 4).copy()
    want[:50] = np.cumsum(want[:50], 1)
    run(runs_of_four, p, 50)
    assert np.array_equal(p, want.reshape(-1))


def test_a_condition_in_common_keeps_threads_apart(run):
    p = np.full(128, 7, I32)
    run(halves, p, 40)
    assert np.array_equal(p, [*range(40), *(-np.arange(40)), *[7] * 48])


@mt.kernel
def tree(A: T.Tensor((128,), T.int32), S: T.Tensor((1,), T.int32), n: T.int32):
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        s = T.alloc_shared((128,), T.int32)
        s[t] = A[t]
        stride = n
        while stride > 0:
            if t < stride:
                s[t] = s[t] + s[t + stride]
            stride = stride // 2
        if t == 0:
            S[0] = s[0]


@mt.kernel
def even_tree(A: T.Tensor((128,), T.int32), S: T.Tensor((1,), T.int32)):
    with T.Kernel(1, threads=(32, 4)):
        x, y = T.get_thread_binding(0), T.get_thread_binding(1)
        t = y * 32 + x
        s = T.alloc_shared((128,), T.int32)
        s[t] = A[t]
        for i in T.unroll(7):
            if t % (2 << i) == 0:
                s[t] += s[t + (1 << i)]
        if x == 0 and y == 0:
            S[0] = s[0]
            S[0] = S[0] + 1


def test_trees_of_sums(run):
    a, o = np.arange(128, dtype=I32), np.zeros(1, I32)
    assert barriers(run(tree, a, o, 64)) > 0
    assert o[0] == a.sum()
    run(even_tree, a, o)
    assert o[0] == a.sum() + 1


@mt.kernel
def colours(Y: T.Tensor((66,), T.float32), turns: T.int32, named=True):
    """Red-black sweeps: threads whose parity is that of a number that all share."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((66,), T.float32)
        for i in range(t, 66, 64):
            s[i] = Y[i]
        for turn in range(turns):
            if named:
                for colour in range(2):
                    if t + 1 < 65 and (t + 1) % 2 == colour:
                        s[t + 1] = (s[t] + s[t + 2]) * 0.5
            elif (t + 1) % 2 == turn % 2:
                s[t + 1] = (s[t] + s[t + 2]) * 0.5
        for i in range(t, 66, 64):
            Y[i] = s[i]


@pytest.mark.parametrize("named", [True, False])
def test_a_condition_on_a_number_that_all_share(run, named):
    y = np.random.default_rng(0).integers(0, 99, 66).astype(np.float32)
    want = y.copy()
    for turn in range(4):
        for colour in range(2) if named else [turn % 2]:
            at = np.arange(1, 65)[np.arange(1, 65) % 2 == colour]
            want[at] = (want[at - 1] + want[at + 1]) * np.float32(0.5)
    run(colours, y, 4, named=named)
    assert np.array_equal(y, want)


@mt.kernel
def to_and_fro(X: T.Tensor(("N",), T.float32), turns: T.int32, first: T.int32):
    """Of two arrays each is made from the other one, in turn; who begins is an argument."""
    N = X.shape[0]
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((200,), T.float32)
        for i in range(t, 200, 64):
            s[i] = 0.0
        for turn in range(turns):
            for i in range(t, N, 64):
                if (turn + first) % 2 == 0:
                    s[i] = X[T.max(i - 1, 0)] + 1.0
                else:
                    X[i] = s[T.min(i + 1, N - 1)] * 0.5


@pytest.mark.parametrize("first", [0, 1])
def test_sides_of_a_branch_that_all_threads_take_alike(run, first):
    x = np.random.default_rng(0).integers(0, 99, 133).astype(np.float32)
    want, s = x.copy(), np.zeros(133, np.float32)
    for turn in range(3):
        if (turn + first) % 2 == 0:
            s = want[np.maximum(np.arange(133) - 1, 0)] + np.float32(1)
        else:
            want = s[np.minimum(np.arange(133) + 1, 132)] * np.float32(0.5)
    run(to_and_fro, x, 3, first)
    assert np.array_equal(x, want)


def test_sides_that_threads_may_be_on_at_one_time_are_refused():
    """They change from round to round, and threads may be in different rounds; or threads differ."""

    @mt.kernel
    def changing(X: T.Tensor((256,), T.float32), Y: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=64):
            side = 0
            for i in range(T.get_thread_binding(), 250, 64):
                if side == 0:
                    Y[i] = X[i]
                else:
                    X[i] = Y[i - 63]
                side = 1 - side

    @mt.kernel
    def by_thread(X: T.Tensor((256,), T.float32), Y: T.Tensor((256,), T.float32)):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            for i in range(t, 250, 64):
                if t < 32:
                    Y[i] = X[i]
                else:
                    X[i] = Y[i - 1]

    for kernel in (changing, by_thread):
        with pytest.raises(mt.MinitileError, match="no barrier can stand between"):
            kernel.compile(target="sm_80")


REFUSED = [  # the second access of some thread meets the first one of another
    ("if t < 64:", "P[0, t] = 1", "P[0, 63 - t] = 2"),
    ("if t < n:", "P[0, t] = 1", "P[0, t + 1] = 2"),
    ("if t < n:", "P[0, t] = 1", "P[1, t] = P[0, 2 * t]"),
    ("if t < n:", "P[1, t] = P[0, t + n - 1]", "P[0, t] = 1"),
    ("for k in range(t, 256, 64):", "P[0, k] = 1", "P[0, k + 64] = 2"),
    ("for k in range(t, 256, 32):", "P[0, k] = 1", "P[0, k] = P[0, k] + P[0, k + 1]"),
    ("if X[t] > 0:", "P[0, t] = 1", "P[0, X[t]] = 2"),
    ("if t % 2 == 0:", "P[0, t] = 1", "P[1, t] = P[0, t + 2]"),
    ("if t % 2 == n % 2:", "P[0, t] = 1", "P[1, t] = P[0, t + 2]"),
    ("if t % 2 == X[t] % 2:", "P[0, t] = 1", "P[1, t] = P[0, t + 1]"),
    ("if t % (n % 3 + 1) == 0:", "P[0, t] = 1", "P[1, t] = P[0, t + 1]"),
]


@pytest.mark.parametrize(("around", "first", "second"), REFUSED)
def test_what_other_threads_touch_is_still_refused(tmp_path, monkeypatch, around, first, second):
    source = f"""
import minitile as mt
import minitile.language as T

@mt.kernel
def k(P: T.Tensor((2, 512), T.int32), X: T.Tensor((128,), T.int32), n: T.int32):
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        {around}
            {first}
            {second}
"""
    file = tmp_path / "racy.py"
    file.write_text(source)
    names: dict = {}
    exec(compile(source, str(file), "exec"), names)
    with pytest.raises(mt.MinitileError, match="no barrier can stand between"):
        names["k"].compile(target="sm_80")


@mt.kernel
def handed_on(Y: T.Tensor((64,), T.int32), n: T.int32):
    """A barrier where another thread's place is read, none where the thread's own is."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s = T.alloc_shared((64,), T.int32)
        s[t] = t
        for _ in range(n):
            s[t] = s[t] + 1
            s[t] = s[(t + 1) % 64]
        Y[t] = s[t]


def test_barriers_stand_where_threads_meet_and_nowhere_else():
    compiled = handed_on.compile(target="sm_80")
    assert barriers(compiled) == 2  # in front of the neighbour's place, and behind its last reader
    y, want = np.zeros(64, I32), np.arange(64)
    compiled.simulate(y, 3)
    for _ in range(3):
        want = np.roll(want + 1, -1)
    assert np.array_equal(y, want)


# Barriers with numbers ------------------------------------------------------------------------------------------------


@mt.kernel
def numbered(C: T.Tensor((512,), T.int32), n: T.int32):
    with T.Kernel(1, threads=512):
        t = T.get_thread_binding()
        s = T.alloc_shared((512,), T.int32)
        if t < 256:
            x = 0
            for i in range(n):
                s[t] = t + i
                T.sync_threads(3, 256)
                x += s[255 - t]
                T.sync_threads(3, 256)
            C[t] = x
        else:
            s[t] = 2 * t
            T.sync_threads(4, 256)
            C[t] = s[767 - t]


@mt.kernel
def both_sides(A: T.Tensor((4, 256), T.int32), C: T.Tensor((4, 256), T.int32)):
    with T.Kernel(1, threads=512):
        t = T.get_thread_binding()
        s = T.alloc_shared((256,), T.int32)
        if t < 256:
            for i in range(4):
                s[t] = A[i, t]
                T.sync_threads(1, 512)
                T.sync_threads(2, 512)
        else:
            for i in range(4):
                T.sync_threads(1, 512)
                C[i, t - 256] = s[511 - t]
                T.sync_threads(2, 512)


def test_the_threads_of_a_branch_meet_at_a_number(run):
    c = np.zeros(512, I32)
    run(numbered, c, 3)
    assert np.array_equal(c, [*(np.arange(256)[::-1] * 3 + 3), *(2 * np.arange(256, 512)[::-1])])
    a, c = np.arange(1024, dtype=I32).reshape(4, 256), np.zeros((4, 256), I32)
    run(both_sides, a, c)
    assert np.array_equal(c, a[:, ::-1])


@pytest.mark.parametrize("target", TARGETS)
def test_a_round_without_its_second_barrier_is_refused(target):
    @mt.kernel
    def lacks_one(C: T.Tensor((256,), T.int32), n: T.int32):
        with T.Kernel(1, threads=512):
            t = T.get_thread_binding()
            s = T.alloc_shared((256,), T.int32)
            if t < 256:
                x = 0
                for i in range(n):
                    s[t] = t + i
                    T.sync_threads(3, 256)
                    x += s[255 - t]
                C[t] = x

    with pytest.raises(mt.MinitileError, match="no barrier can stand between"):
        lacks_one.compile(target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_a_part_of_a_warp_meets_no_others(target):
    @mt.kernel
    def part(C: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            if t < 40:
                T.sync_threads(3, 64)
                C[t] = t

    with pytest.raises(mt.MinitileError, match=r"whole warps|a part of a wave"):
        part.compile(target=target)


# The program's word ---------------------------------------------------------------------------------------------------


@mt.kernel
def to_both_ends(X: T.Tensor((256,), T.int32), Y: T.Tensor((256,), T.int32), N: T.Tensor((2,), T.int32)):
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        if X[t] > 0:
            Y[T.atomic_add(N[0], 1, return_prev=True)] = X[t]
        else:
            Y[255 - T.atomic_add(N[1], 1, return_prev=True)] = X[t]


@mt.kernel
def pairs(X: T.Tensor((256,), T.int32), Y: T.Tensor((512,), T.int32), N: T.Tensor((1,), T.int32)):
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        with T.assume_disjoint(Y):
            if X[t] > 0:
                p = T.atomic_add(N[0], 2, return_prev=True)
                Y[p] = X[t]
                Y[p + 1] = Y[p] + 1


def test_places_that_atomics_gave(run):
    x = np.random.default_rng(0).integers(-5, 5, 256).astype(I32)
    y, n = np.zeros(256, I32), np.zeros(2, I32)
    run(to_both_ends, x, y, n)
    assert np.array_equal(np.sort(y), np.sort(x))
    assert (y[: n[0]] > 0).all()
    y, n = np.zeros(512, I32), np.zeros(1, I32)
    run(pairs, x, y, n)
    assert np.array_equal(np.sort(y[: n[0] : 2]), np.sort(x[x > 0]))
    assert np.array_equal(y[1 : n[0] : 2], y[: n[0] : 2] + 1)


@mt.kernel
def a_lie(X: T.Tensor((256,), T.int32), Y: T.Tensor((256,), T.int32)):
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        with T.assume_disjoint(Y):
            if X[t] == 0:
                Y[t] = 1
                Y[255 - t] = 2


@pytest.mark.parametrize("target", TARGETS)
def test_the_simulator_does_not_take_the_word_for_it(target):
    y = np.zeros(256, I32)
    with pytest.raises(mt.RaceError):
        a_lie.compile(target=target).simulate(y, y.copy())


@mt.kernel
def word_in_a_loop(Y: T.Tensor((256,), T.int32), n: T.int32):
    """What one round says does not hold between rounds, nor for what stands outside."""
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        s = T.alloc_shared((512,), T.int32)
        s[t] = t
        for _ in range(n):
            with T.assume_disjoint(s):
                s[t + 256] = s[t]
            with T.assume_disjoint(s):
                s[t] = s[(t + 1) % 256 + 256]
        Y[t] = s[255 - t]


def test_the_word_holds_for_one_time_that_it_is_said(run):
    y = np.zeros(256, I32)
    run(word_in_a_loop, y, 3)
    assert np.array_equal(y, np.roll(np.arange(256), -3)[::-1])


def test_words_that_mean_nothing_are_errors(refuses):
    def nothing():
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), T.float32)
            with T.assume_disjoint():
                s[0] = 0

    def of_a_fragment():
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((64,), T.float32)
            with T.assume_disjoint(f):
                T.clear(f)

    refuses(nothing, "T.assume_disjoint() of nothing")
    refuses(of_a_fragment, "which is no tensor and no shared buffer")


# Variables and arrays of each thread's own ----------------------------------------------------------------------------


@mt.kernel
def variables(A: T.Tensor((64,), T.float16), C: T.Tensor((64,), T.float32), n: T.int32):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        v = T.alloc_var(T.float32)
        T.clear(v)
        v = A[t]
        w = T.alloc_var(T.float32, 3)
        for k in range(n):
            if k % 2 == 0:
                T.clear(w)
            else:
                T.fill(w, k)
            w += 1
        u = 1.5
        if t < 5:
            T.fill(u, T.float32(t))
        C[t] = v + w + u


@pytest.mark.parametrize("n", [0, 1, 2])
def test_clear_and_fill_of_a_variable(run, n):
    a, c, t = np.arange(64).astype(np.float16), np.zeros(64, np.float32), np.arange(64)
    run(variables, a, c, n)
    assert np.array_equal(c, a.astype(np.float32) + (3, 1, 2)[n] + np.where(t < 5, t, 1.5))


@mt.kernel
def counts(A: T.Tensor((8, 64), T.float32), C: T.Tensor((64,), T.float32), n: T.int32):
    with T.Kernel(1, threads=64):
        i = T.alloc_local((1,), T.int32)
        acc, x = T.alloc_fragment((64,), T.float32), T.alloc_fragment((64,), T.float32)
        T.clear(acc)
        i[0] = 0
        while i[0] < n:
            T.copy(A[i[0], 0:64], x)
            for j in T.Parallel(64):
                acc[j] += x[j]
            i[0] += 1
        T.copy(acc, C)


def test_an_array_of_each_threads_own_may_count_for_all(run):
    a = np.arange(512).reshape(8, 64).astype(np.float32)
    for n in (0, 3):
        c = np.zeros(64, np.float32)
        run(counts, a, c, n)
        assert np.array_equal(c, a[:n].sum(0))


def test_one_that_differs_may_not(refuses):
    def stored(C: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            x, i = T.alloc_fragment((64,), T.float32), T.alloc_local((1,), T.int32)
            i[0] = T.get_thread_binding()
            if i[0] < 3:
                T.copy(C, x)

    def by_some(C: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=64):
            x, i = T.alloc_fragment((64,), T.float32), T.alloc_local((1,), T.int32)
            i[0] = 0
            for _ in range(2):
                if i[0] < 3:
                    T.copy(C, x)
                if T.get_thread_binding() < 5:
                    i[0] = 4

    refuses(stored, "under a condition that differs between threads")
    refuses(by_some, "under a condition that differs between threads")


@mt.kernel
def own_place(C: T.Tensor((64,), T.int32), n: T.int32):
    """The array stays in memory, since its index is a run-time value; what it holds is each thread's own."""
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        s, own = T.alloc_shared((64,), T.int32), T.alloc_local((4,), T.int32)
        for i in range(4):
            own[i] = 0
        own[n] = t
        s[t] = 1
        if own[n] < 10:
            C[t] = s[63 - t] + own[n]
        else:
            C[t] = 0


def test_an_array_of_each_threads_own_in_memory_parts_threads(run):
    c, t = np.full(64, -1, I32), np.arange(64)
    run(own_place, c, 2)
    assert np.array_equal(c, np.where(t < 10, t + 1, 0))


@mt.kernel
def leaders(X: T.Tensor((256,), T.int32), Y: T.Tensor((8,), T.int32)):
    """Where threads are divergent no barrier can stand, so that one buffer cannot take the bytes of another there."""
    with T.Kernel(1, threads=256):
        t = T.get_thread_binding()
        s, w = T.alloc_shared((256,), T.int32), T.alloc_shared((8,), T.int32)
        s[t] = X[t]
        if t % 32 == 0:
            a = 0
            for i in range(32):
                a = a + s[t + i]
            w[t // 32] = a
        if t < 8:
            Y[t] = w[7 - t]


def test_buffers_of_a_branch_have_bytes_of_their_own(run):
    x, y = np.random.default_rng(0).integers(0, 9, 256).astype(I32), np.zeros(8, I32)
    run(leaders, x, y)
    assert np.array_equal(y, x.reshape(8, 32).sum(1)[::-1])


@mt.kernel
def interleaved(X: T.Tensor((128,), T.int32), Y: T.Tensor((1,), T.int32)):
    """Which threads take part follows from the round; between rounds stands a barrier."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        s = T.alloc_shared((128,), T.int32)
        s[t] = X[t]
        for k in range(7):
            if t % (2 << k) == 0:
                s[t] += s[t + (1 << k)]
        if t == 0:
            Y[0] = s[0]


@mt.kernel
def scanned(X: T.Tensor((128,), T.int32), n: T.int32):
    """Rows p and 1 - p are different ones, whatever p is."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        s = T.alloc_shared((2, 128), T.int32)
        s[0, t] = X[t]
        p, d = 0, 1
        for _ in range(n):
            if t >= d:
                s[1 - p, t] = s[p, t] + s[p, t - d]
            else:
                s[1 - p, t] = s[p, t]
            p, d = 1 - p, d * 2
        X[t] = s[p, t]


@mt.kernel
def eliminated(A: T.Tensor((16, 16), T.float32)):
    with T.Kernel(1, threads=(16, 16)):
        x, y = T.get_thread_binding(0), T.get_thread_binding(1)
        s = T.alloc_shared((16, 17), T.float32)
        s[y, x] = A[y, x]
        for k in range(16):
            if x == k and y > k:
                s[y, x] = s[y, x] / s[k, k]
            if x > k and y > k:
                s[y, x] = s[y, x] - s[y, k] * s[k, x]
        A[y, x] = s[y, x]


@mt.kernel
def rows_of_a_tile(
    A: T.Tensor((64, 64), T.float16), B: T.Tensor((64, 64), T.float16), C: T.Tensor((64, 64), T.float32)
):
    """Each thread has a row of what all have stored, however that lies in shared memory."""
    with T.Kernel(1, threads=128):
        t = T.get_thread_binding()
        a, b = T.alloc_shared((64, 64), T.float16), T.alloc_shared((64, 64), T.float16)
        c, s = T.alloc_fragment((64, 64), T.float32), T.alloc_shared((64, 64), T.float32)
        T.copy(A, a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c, transpose_B=True)
        T.copy(c, s)
        if t < 64:
            for j in range(63):
                s[t, j] = s[t, j] + s[t, j + 1]
        T.copy(s, C)


def test_rounds_of_threads_that_differ(run):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, 128).astype(I32), np.zeros(1, I32)
    run(interleaved, x, y)
    assert y[0] == x.sum()
    want = np.cumsum(x)
    run(scanned, x, 7)
    assert np.array_equal(x, want)
    a = (np.eye(16) + np.tril(rng.integers(0, 2, (16, 16)), -1)).astype(np.float32) * 64
    want = a.copy()
    for k in range(16):
        want[k + 1 :, k] /= want[k, k]
        want[k + 1 :, k + 1 :] -= np.outer(want[k + 1 :, k], want[k, k + 1 :])
    run(eliminated, a)
    assert np.array_equal(a, want)


def test_rows_of_a_tile_in_any_layout(run):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in "ab")
    c = np.zeros((64, 64), np.float32)
    run(rows_of_a_tile, a, b, c)
    want = a.astype(np.float32) @ b.astype(np.float32).T
    want[:, :63] += want[:, 1:]
    assert np.array_equal(c, want)
