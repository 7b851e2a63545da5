"""Turns against a driver made of Python, whose clock advances by what each launch is said to take."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from minitile.runtime import cuda, timing
from minitile.runtime.errors import DriverError


class Driver:
    """Streams, events, memory and graphs. A launch is an advance of `clock` in milliseconds, or a node of the graph
    that is being captured."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self):
        self.clock, self.graph, self.events, self.log, self.live = 0.0, None, {}, [], 0

    def launch(self, name, ms):
        def run(stream=None):
            assert stream == 77
            if self.graph is not None:
                self.graph.append((name, ms))
            else:
                self.log.append(name)
                self.clock += ms

        return run

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *args: (0, *self.answer(name, args))

    def answer(self, name, args):
        kind = name.removeprefix("cu")
        if kind.endswith(("Create", "Alloc")):
            self.live += 1
            return (77 if kind == "StreamCreate" else 100 + self.live,)
        if kind.endswith(("Destroy", "Free")):
            self.live -= 1
        elif kind == "EventRecord":
            self.events[args[0]] = self.clock
        elif kind == "EventElapsedTime":
            return (self.events[args[1]] - self.events[args[0]],)
        elif kind == "StreamBeginCapture":
            self.graph = []
        elif kind == "StreamEndCapture":
            graph, self.graph = self.graph, None
            return (graph,)
        elif kind == "GraphInstantiate":
            return (args[0],)
        elif kind == "GraphLaunch":
            self.log.append([name for name, _ in args[0]])
            self.clock += sum(ms for _, ms in args[0])
        elif kind == "MemsetD8Async":
            self.log.append("flush")
            self.clock += 0.05
        return ()


@pytest.fixture
def driver(monkeypatch):
    found = Driver()
    monkeypatch.setattr(cuda, "driver", lambda: found)
    return found


def test_graphs_of_about_a_millisecond_are_interleaved(driver):
    times = timing.time_interleaved(
        {"slow": driver.launch("slow", 0.4), "fast": driver.launch("fast", 0.001)}, rounds=7
    )
    assert times == {"slow": pytest.approx([0.4] * 7), "fast": pytest.approx([0.001] * 7)}
    replays = [entry for entry in driver.log if isinstance(entry, list)]
    assert {(r[0], len(r)) for r in replays} == {("slow", 2), ("fast", timing.MOST_LAUNCHES)}
    rounds = [[r[0] for r in replays[at : at + 4 : 2]] for at in range(0, 28, 4)]
    assert all(sorted(r) == ["fast", "slow"] for r in rounds)
    assert len(set(map(tuple, rounds))) == 2, "not always in the same order"
    assert driver.live == 0


def test_with_a_flush_launches_are_single_and_the_flush_is_not_timed(driver):
    times = timing.time_interleaved({"a": driver.launch("a", 0.3)}, rounds=3, flush=True)
    assert times == {"a": pytest.approx([0.3] * 3)}
    assert driver.log == ["flush", "a"] * 3
    assert driver.live == 0


def test_a_launch_that_cannot_be_recorded(driver):
    def broken(stream):
        if driver.graph is not None:
            raise DriverError("not while recording", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED")

    with pytest.raises(DriverError):
        timing.time_interleaved({"a": broken})
    assert driver.graph is None
    assert driver.live == 0
