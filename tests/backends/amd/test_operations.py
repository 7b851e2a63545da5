"""The tests of thread operations that are no one vendor's: what they make is written as GCN assembly and simulated."""

from __future__ import annotations

import pytest

from minitile.target import TARGETS
from tests.backends.nvidia import harness, test_arith, test_cast, test_control, test_memory, test_warp

pytest.importorskip("llvmlite")


@pytest.fixture(params=["gfx942", "gfx950"], autouse=True)
def _target(request, monkeypatch):
    monkeypatch.setattr(harness, "redirect", TARGETS[request.param])


test_arithmetic = test_arith.test_arithmetic
test_shifts = test_arith.test_shifts
test_division_by_constants = test_arith.test_division_by_constants
test_fma = test_arith.test_fma
test_scalar_with_registers = test_arith.test_scalar_with_registers
test_function_errors = test_arith.test_function_errors
test_special_values = test_arith.test_special_values
test_functions_of_halves = test_arith.test_functions_of_halves
test_numbers = test_cast.test_cast
test_numbers_to_fp8 = test_cast.test_cast_to_fp8
test_every_fp8_number_and_the_midpoints = test_cast.test_every_fp8_number_and_the_midpoints
test_numbers_from_fp8 = test_cast.test_cast_from_fp8
test_ties_round_to_even_once = test_cast.test_ties_round_to_even_once
test_reinterpret = test_cast.test_reinterpret
test_random_programs = test_control.test_random_programs
test_swap = test_control.test_swap
test_zero_trips_give_the_initial_value = test_control.test_zero_trips_give_the_initial_value
test_values_of_every_dtype_are_handed_over = test_control.test_values_of_every_dtype_are_handed_over
test_copy = test_memory.test_copy
test_buffers = test_memory.test_buffers
test_a_scalar_is_stored_to_every_element = test_memory.test_a_scalar_is_stored_to_every_element
test_atomics = test_memory.test_atomics
test_atomic_extremes_of_every_sign = test_memory.test_atomic_extremes_of_every_sign
test_contended_atomics = test_memory.test_contended_atomics
test_packed_f16_atomics = test_memory.test_packed_f16_atomics
test_impossible_atomics_are_refused = test_memory.test_impossible_atomics_are_refused
test_shuffles = test_warp.test_shuffles
test_pieces = test_warp.test_pieces
