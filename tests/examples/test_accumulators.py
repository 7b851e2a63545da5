"""Accumulators that ordinary instructions write between products on sm_90a: the assembler makes none of the products
wait for another one, and the result is right in each schedule of the simulator."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support import poisoned

import minitile as mt
from minitile.backends.nvidia.assemble import find_ptxas
from tests.examples.accumulators import PROGRAMS, N

MODES = {"roles": {}, "one role": {"warp_specialize": False}}


def compiled(name: str, mode: str) -> mt.CompiledKernel:
    kernel, _ = PROGRAMS[name]
    rows = 128 if name == "equal_blocks_of_rows" else 64
    specs = [((rows, 96), "bfloat16"), ((96, N), "bfloat16"), ((2,), "int32"), ((rows, N), "float32")]
    return kernel.compile(*[mt.spec(*each) for each in specs], target="sm_90a", **MODES[mode])


@pytest.mark.skipif(find_ptxas("wgmma") is None, reason="needs a ptxas")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_assembled(name, mode):
    made = compiled(name, mode)
    assert "wgmma.mma_async" in made.asm["ptx"], made.notes
    assert made.assembled.warnings == ()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, mode):
    made = compiled(name, mode)
    _, expected = PROGRAMS[name]
    rng = np.random.default_rng(0)
    rows = 128 if name == "equal_blocks_of_rows" else 64
    a, b = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((rows, 96), (96, N)))
    for n, x, (schedule, seed) in ((2, 1, ("lazy", 0)), (0, 0, ("eager", 0)), (1, 0, ("random", 1))):
        c, switches = poisoned((rows, N), np.float32), np.array([x, 0], np.int32)
        made.simulate(a, b, switches, c, n, schedule=schedule, seed=seed)
        wanted = expected(a.astype(np.float32), b.astype(np.float32), switches, n)
        np.testing.assert_array_equal(c, np.broadcast_to(wanted, c.shape), err_msg=f"{n}, {x}")


@pytest.mark.parametrize("name", ["filled_by_a_loop", "filled_by_a_branch", "filled_in_the_other_branch"])
def test_in_flight_from_turn_to_turn(name):
    """However its accumulator has been filled: the loop waits for the product of the turn before, not for its own."""
    assert "wgmma.wait_group.sync.aligned 1;" in compiled(name, "roles").asm["ptx"]
