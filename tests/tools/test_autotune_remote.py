"""mt.autotune whose compilation and measuring are elsewhere: in other processes, and on a cluster of Dask's."""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.tools import autotune as autotune_module
from minitile.tools.measuring import measure

SPACE = {"block": [32, 64, 128, 256], "threads": [32]}


@mt.kernel(target="sm_80")
def scale(X: T.Tensor(("n",), T.float32), Y: T.Tensor(("n",), T.float32), block=64, threads=32):
    with T.Kernel(T.ceildiv(X.shape[0], block), threads=threads) as b:
        for i in T.Parallel(block):
            Y[b * block + i] = X[b * block + i] * 2 + (1 if block == 256 else 0)


def vectors():
    x = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    return x, np.full_like(x, np.nan)


def clock(launches):
    """Time by configuration, on a machine whose speed is its process' own. It runs what it times once."""
    speed = 1 + os.getpid() % 7
    found = {}
    for name, launch in launches.items():
        launch()
        block, threads = (int(part.split("=")[1]) for part in name.split(", "))
        found[name] = [(1 + abs(block - 128) / 32 + threads / 1000) * speed] * 3
    return found


def right(x, y):
    assert not np.isnan(y).any()
    return bool((y == 2 * x).all())


def poison(x, y):
    y[:] = np.nan


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(autotune_module, "BATCH", 2)


class Noting:
    """An executor that passes on what it is given, and keeps what came back."""

    def __init__(self, executor):
        self.executor, self.outcomes, self.calls = executor, [], []

    def submit(self, function, *args):
        self.calls.append(function)
        future = self.executor.submit(function, *args)
        if function is measure:
            self.outcomes.append(future)
        return future


class Refusing:
    def submit(self, *args):
        raise AssertionError("there is nothing to do")


def tuned(executor, measure_on, **options):
    how = {"measure": clock, "check": right, "reset": poison, "arguments": vectors, "progress": False, **options}
    return mt.autotune(scale, SPACE, executor=executor, measure_on=measure_on, **how)


def is_right(tuning):
    assert tuning.config == {"block": 128, "threads": 32}
    by_name = {str(t): t for t in tuning.trials}
    assert len(by_name) == 4
    assert by_name["block=256, threads=32"].failure == "wrong result"
    timed = [t for t in tuning.trials if t.ms is not None]
    assert [t.ms for t in timed] == sorted(t.ms for t in timed)
    best = tuning.trials[0].ms
    assert by_name["block=32, threads=32"].ms / best == pytest.approx(4.032 / 1.032)  # whichever machine timed which
    x, y = vectors()
    tuning.kernel(x, y)
    assert right(x, y)


def test_in_other_processes():
    """Both compile and measure in processes of their own; what is stored is stored here, and not measured again."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        there = Noting(processes)
        x, y = vectors()
        is_right(tuned(processes, there).tune(x, y))
        assert np.isnan(y).all()  # nothing has run on the arguments here
        assert len(there.outcomes) >= 3  # two batches and the finals
        again = Noting(processes)
        is_right(tuned(Refusing(), again).tune(x, y))
        assert [f.__name__ for f in again.calls] == ["where"]
        # The arguments themselves are sent where none are made.
        is_right(tuned(processes, processes, arguments=None, cache=False).tune(x, y))
        assert np.isnan(y).all()


class Broken:
    """A worker that is lost when it measures for the `death`th time."""

    def __init__(self, death):
        self.count, self.death = 0, death

    def submit(self, function, *args):
        future = Future()
        self.count += function is measure
        if function is measure and self.count == self.death:
            future.set_exception(RuntimeError("the worker died"))
        else:
            future.set_result(function(*args))
        return future


def test_a_worker_that_dies():
    x, y = vectors()
    tuning = tuned(None, Broken(2)).tune(x, y)
    lost = [t for t in tuning.trials if "the worker died" in t.failure]
    assert len(lost) == 2
    assert tuning.trials[0].ms is not None
    again = Broken(2)  # what was lost is not stored, and is measured again; this one is lost in the finals
    found = tuned(None, again).tune(x, y)
    assert (again.count, found.config) == (2, {"block": 128, "threads": 32})
    assert not [t for t in found.trials if "the worker died" in t.failure]
    last = Broken(0)  # which are held again
    is_right(tuned(None, last).tune(x, y))
    assert last.count == 1


def test_what_is_asked_for_in_vain():
    x, y = vectors()
    with pytest.raises(mt.MinitileError, match="arguments= makes the arguments where measure_on= measures"):
        mt.autotune(scale, SPACE, arguments=vectors, measure=clock).tune(x, y)


@mt.kernel(target="sm_80", out_idx=-1)
def scale_anew(X: T.Tensor(("n",), T.float32), Y: T.Tensor(("n",), T.float32), block=64, threads=32):
    with T.Kernel(T.ceildiv(X.shape[0], block), threads=threads) as b:
        for i in T.Parallel(block):
            Y[b * block + i] = X[b * block + i] * 2


def test_results():
    """Where no call makes them, `arguments` does."""
    x, here = vectors()[0], Broken(0)
    options = {"measure_on": here, "measure": clock, "check": right, "reset": poison, "progress": False}
    tuning = mt.autotune(scale_anew, SPACE, arguments=vectors, **options).tune(x)
    assert tuning.config == {"block": 128, "threads": 32}
    assert not [t.failure for t in tuning.trials if t.failure]
    with pytest.raises(mt.MinitileError, match="scale_anew makes its results"):
        mt.autotune(scale_anew, SPACE, cache=False, **options).tune(x)


@pytest.mark.slow
def test_on_dask(tmp_path):
    """A cluster on this machine: two workers, of which one has the GPU, and a process of its own."""
    distributed = pytest.importorskip("distributed")
    how = {"nthreads": 1, "local_directory": str(tmp_path)}
    workers = {
        "cpu": {"cls": distributed.Worker, "options": how},
        "gpu": {"cls": distributed.Nanny, "options": {**how, "resources": {"GPU": 1}}},
    }
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False}}
    with (
        distributed.SpecCluster(workers=workers, scheduler=scheduler) as cluster,
        distributed.Client(cluster) as client,
    ):
        compile_on, measure_on = client.get_executor(), Noting(client.get_executor(resources={"GPU": 1}))
        x, y = vectors()
        is_right(tuned(compile_on, measure_on, check=lambda x, y: right(x, y)).tune(x, y))
        assert len(measure_on.outcomes) >= 3
        assert np.isnan(y).all()
