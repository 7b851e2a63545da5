"""mt.autotune with clocks made here: what is compiled where, measured how often, stored, resumed and refused."""

from __future__ import annotations

import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.tools.autotune import BATCH, Job, build

SPACE = {"block": [32, 64, 128, 256], "threads": [32, 64]}


def make_scale(factor=2.0):
    @mt.kernel
    def scale(X: T.Tensor(("n",), T.float32), Y: T.Tensor(("n",), T.float32), block=64, threads=32, spare=32):
        n = X.shape[0]
        with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
            room = T.alloc_shared((block + spare,), T.float32)
            part = T.alloc_fragment((block,), T.float32)
            T.copy(X[b * block], room[0:block])
            T.copy(room[0:block], part)
            for i in T.Parallel(block):
                part[i] = part[i] * factor
            T.copy(part, Y[b * block])

    return scale


def vectors(n=300):
    x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
    return x, np.full(n, np.nan, np.float32)


def right(x, y):
    return bool((y == 2 * x).all())


def poison(x, y):
    y[:] = np.nan


class StubTimer:
    """Time that a configuration takes, by `cost`; `groups` are those that took turns. Nothing is launched."""

    __module__, __qualname__ = "tests", "StubTimer"

    def __init__(self, cost=lambda block, threads: 1 + abs(block - 128) / 32 + threads / 1000, drift=0.0):
        self.cost, self.drift, self.groups = cost, drift, []

    def __call__(self, launches):
        self.groups.append(list(launches))
        warmer = 1 + self.drift * len(self.groups)
        return {name: [self.cost(**eval(f"dict({name})")) * warmer] * 3 for name in launches}

    @property
    def measured(self):
        """Without the finals."""
        return [name for group in self.groups[:-1] for name in group]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path / "cache"))


@mt.kernel
def sums(
    X: T.Tensor(("n",), T.float32),
    bias: T.Tensor(("n",), T.float32) | None = None,
    by: T.float32 = 2.0,
    block=64,
    threads=32,
):
    """by * X + bias, and a part of it for each block: of other shapes in other configurations."""
    n = X.shape[0]
    Y, parts = T.empty(n, T.float32), T.empty(T.ceildiv(n, block), T.float32)
    with T.Kernel(T.ceildiv(n, block), threads=threads) as b:
        for i in T.Parallel(block):
            y = X[b * block + i] * by
            Y[b * block + i] = y if bias is None else y + bias[b * block + i]
        if T.get_thread_binding() == 0:
            parts[b] = 1.0
    return Y


@pytest.mark.parametrize("more", [(), (None, 3.0), (1.0,)])
def test_results_and_what_is_left_out(more):
    """Calls make results, leave out tensors and take defaults; checks are given all of a launch's arguments."""
    x, clock = vectors()[0], StubTimer()
    given = (x, *(np.full(300, n, np.float32) if n == 1.0 else n for n in more))
    wanted = x * np.float32(3 if 3.0 in more else 2) + (1.0 in more)

    def is_right(*args):
        y, parts = args[-2:]
        return len(args) == 4 + (1.0 in more) and (y == wanted).all() and (parts == 1).all()

    tuned = mt.autotune(sums, SPACE, measure=clock, check=is_right, progress=False)
    tuning = tuned.tune(*given)
    assert not [t.failure for t in tuning.trials if t.failure]
    np.testing.assert_array_equal(tuned(*given), wanted)


def test_the_fastest_is_chosen_and_the_table_says_all():
    clock, (x, y) = StubTimer(), vectors()
    tuning = mt.autotune(make_scale(), SPACE, measure=clock, check=right, reset=poison, progress=False).tune(x, y)
    assert tuning.config == {"block": 128, "threads": 32}
    assert [t.ms for t in tuning.trials] == sorted(t.ms for t in tuning.trials)
    assert len(tuning.trials) == 8
    y[:] = 0
    tuning.kernel(x, y)
    assert right(x, y)
    lines = str(tuning).splitlines()
    assert len(lines) == 9
    assert "block=128, threads=32" in lines[1]
    assert tuning.kernel.compile(x, y, target="sm_80").case.constants == (
        ("block", 128),
        ("threads", 32),
        ("spare", 32),
    )


def test_few_take_turns_with_the_fastest_so_far():
    clock, (x, y) = StubTimer(drift=0.8), vectors()
    tuning = mt.autotune(make_scale(), SPACE, measure=clock, progress=False).tune(x, y)
    assert tuning.config == {"block": 128, "threads": 32}, "the clock runs slower and slower, which must not matter"
    first, second, final = clock.groups
    assert len(first) == BATCH
    assert len(second) == 8 - BATCH + 1
    assert second[0] in first
    assert len(final) == 4


def test_nothing_is_measured_twice():
    x, y = vectors()
    first = mt.autotune(make_scale(), SPACE, measure=StubTimer(), progress=False).tune(x, y)
    clock = StubTimer()
    again = mt.autotune(make_scale(), SPACE, measure=clock, executor=Refusing(), progress=False).tune(x, y)
    assert clock.groups == []
    assert (again.config, again.trials) == (first.config, first.trials)
    # Other sizes of the same magnitude and divisors are the same; a larger space measures what is new.
    mt.autotune(make_scale(), SPACE, measure=clock, executor=Refusing(), progress=False).tune(*vectors(260))
    mt.autotune(make_scale(), SPACE | {"block": [96, 32]}, measure=clock, progress=False).tune(x, y)
    assert {name for name in clock.measured if "block=96" in name} == set(clock.groups[0][1:])
    # Other sizes, another captured value, other arguments' dtypes, no cache: others.
    for kernel, args in ((make_scale(), vectors(3000)), (make_scale(3.0), (x, y))):
        clock = StubTimer()
        mt.autotune(kernel, SPACE, measure=clock, progress=False).tune(*args)
        assert len(set(clock.measured)) == 8
    clock = StubTimer()
    mt.autotune(make_scale(), SPACE, measure=clock, cache=False, progress=False).tune(x, y)
    assert len(set(clock.measured)) == 8


class Refusing(ThreadPoolExecutor):
    def submit(self, *args):
        raise AssertionError("there is nothing to compile")


def test_who_calls_again_goes_on():
    class Stopped(StubTimer):
        __module__, __qualname__ = "tests", "StubTimer"

        def __call__(self, launches):
            if self.groups:
                raise KeyboardInterrupt
            return super().__call__(launches)

    x, y = vectors()
    stopped, clock = Stopped(), StubTimer()
    with pytest.raises(KeyboardInterrupt):
        mt.autotune(make_scale(), SPACE, measure=stopped, progress=False).tune(x, y)
    tuning = mt.autotune(make_scale(), SPACE, measure=clock, progress=False).tune(x, y)
    assert tuning.config == {"block": 128, "threads": 32}
    assert len(stopped.groups[0]) == BATCH
    new, _ = clock.groups
    assert len(set(new) - set(stopped.groups[0])) == 8 - BATCH
    assert len(set(new) & set(stopped.groups[0])) == 1, "the fastest so far takes part"


def test_what_fails_stays_in_the_table():
    x, y = vectors()
    configs = [{"block": 64}, {"block": 100}, {"spare": 1 << 20}, {"threads": 33}, {"blok": 1}, {"block": 32}]

    def check(x, y):
        if len(y) and check.block32.pop():
            raise ValueError("off by one")
        return right(x, y)

    check.block32 = [False, False, False, True]
    with ThreadPoolExecutor(1) as one:
        tuning = mt.autotune(
            make_scale(), configs, measure=StubTimer(lambda **c: 1.0), check=check, executor=one, progress=False
        ).tune(x, y)
    reasons = {str(t): t.failure for t in tuning.trials}
    assert "threads=64" in reasons["threads=33"] or "multiple of 32" in reasons["threads=33"]
    assert "the shared memory of a block" in reasons["spare=1048576"]
    assert "no compile-time parameter 'blok'" in reasons["blok=1"]
    assert sum("off by one" in r for r in reasons.values()) == 1
    assert any(t.ms is not None for t in tuning.trials)
    assert "–" in str(tuning)


def test_no_configuration_works():
    x, y = vectors()
    with pytest.raises(mt.MinitileError, match="no configuration of scale works") as caught:
        mt.autotune(make_scale(), [{"threads": 33}], measure=StubTimer(), progress=False).tune(x, y)
    assert caught.value.loc.file == __file__
    wrong = mt.autotune(make_scale(3.0), SPACE, measure=StubTimer(), check=right, progress=False)
    with pytest.raises(mt.MinitileError, match="wrong result"):
        wrong.tune(x, y)


def test_other_processes_compile_kernels_that_they_cannot_import():
    x, y = vectors()
    with ProcessPoolExecutor(2) as processes:
        tuning = mt.autotune(
            make_scale(), SPACE, measure=StubTimer(), check=right, reset=poison, executor=processes, progress=False
        ).tune(x, y)
    assert tuning.config == {"block": 128, "threads": 32}
    assert all(t.ms is not None for t in tuning.trials)


def instructions(ptx):
    """Constants of a text have their lines in the text, so files and lines are left out."""
    return [line for line in ptx.splitlines() if not line.strip().startswith((".loc", ".file"))]


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_what_is_sent_compiles_to_the_same(target):
    from minitile.ir.printer import print_kernel
    from minitile.ops.gemm import gemm

    kernel = gemm(T.bfloat16, T.bfloat16, False, True, False, False)
    specs = [mt.spec((256, 256), "bfloat16")] * 3
    constants = {"block_N": 64, "stages": 3, "blocks": 4, "panel": 2, "threads": 128}
    here = kernel.compile(*specs, target=target, **constants)
    text = print_kernel(kernel.trace(*specs, **constants), locations=True)
    there = build(Job(text, here.target, {}))
    assert there.failure == ""
    assert instructions(there.result.assembly["ptx"]) == instructions(here.asm["ptx"])
    assert there.result.grid == here.launch_info.grid


def test_a_decorated_kernel_tunes_itself_once_for_each_kind_of_arguments():
    clock = StubTimer()
    kernel = make_scale()
    scale = mt.autotune(configs=SPACE, measure=clock, progress=False)(kernel)
    for n in (300, 310, 300):
        x, y = vectors(n)
        scale(x, y)
        assert right(x, y)
    scale(*vectors(310))
    assert len(clock.groups) == 6, "300 is divisible by 4, 310 by 2"
    assert scale.__name__ == "scale"
    x, y = vectors(5000)
    scale(x, y, block=64)
    assert right(x, y)


def test_configurations_by_a_function_of_the_arguments():
    clock, (x, y) = StubTimer(), vectors()
    tuned = mt.autotune(
        make_scale(), lambda x, y: [{"block": b, "threads": 32} for b in (32, len(x) // 5, 32)], measure=clock
    )
    assert len(tuned.tune(x, y).trials) == 2


def test_what_is_refused():
    x, y = vectors()
    kernel = make_scale()
    for wrong, words in (
        (lambda: mt.autotune(kernel, SPACE, clock=StubTimer()), "no option 'clock'"),
        (lambda: mt.autotune(print, SPACE), "is for kernels"),
        (lambda: mt.autotune(kernel, []).tune(x, y), "no configurations|no clock"),
        (lambda: mt.autotune(kernel, [], measure=StubTimer()).tune(x, y), "no configurations"),
        (lambda: mt.autotune(kernel, SPACE).tune(x, y), "no clock"),
        (lambda: mt.autotune(kernel, SPACE).tune(), "needs the arguments"),
        (lambda: mt.autotune(kernel, SPACE).tune("x", y), "no array"),
    ):
        with pytest.raises(mt.MinitileError, match=words) as caught:
            wrong()
        assert caught.value.loc.file == __file__


def test_progress_is_told(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm", None)
    mt.autotune(make_scale(), SPACE, measure=StubTimer()).tune(*vectors())
    told = capsys.readouterr().err
    assert "tuning scale: 8 of 8" in told
    assert "block=128, threads=32" in told


def test_measurements_of_several_threads_do_not_mix():
    x, y = vectors()
    found = []
    tuned = mt.autotune(make_scale(), SPACE, measure=StubTimer(), progress=False)
    workers = [threading.Thread(target=lambda: found.append(tuned.tune(x, y.copy()).config)) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert found == [{"block": 128, "threads": 32}] * 3
