"""The cases of benchmarks/memory.py are what their names say."""

from __future__ import annotations

import sys
from types import SimpleNamespace


def test_inputs_have_the_sizes_of_their_names(monkeypatch):
    """Also where a function makes them that later cases' sizes might have changed under its hands."""
    import memory_cases

    tensor = lambda *shape: SimpleNamespace(shape=shape, to=lambda _: tensor(*shape))  # noqa: E731
    torch = SimpleNamespace(
        Generator=lambda _: SimpleNamespace(manual_seed=lambda seed: seed),
        randn=lambda shape, **_: tensor(*shape),
        randint=lambda _, shape, **more: tensor(*shape),
        bfloat16=None,
        float32=None,
    )
    cases = memory_cases.cases()
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name, shapes in {
        "embedding 16384 of 128256x4096": [(128256, 4096), (16384,)],
        "top_k 8 of 16384x4096": [(16384, 4096)],
        "top_k 50 of 1024x65536": [(1024, 65536)],
        "geglu_backward 16384x4096": [(16384, 4096), (16384, 8192)],
    }.items():
        assert [x.shape for x in cases[name].inputs(0)] == shapes, name
