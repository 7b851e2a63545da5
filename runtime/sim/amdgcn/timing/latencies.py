"""Every number of the cycle estimate, with where it is from. Cycles are those of the compute unit's clock.

What is marked (estimate) is not published by the vendor; it is the order of magnitude that public measurements give and
decides how much must be in flight, not what the units can do at best.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latencies:
    """The machine of the estimate: one compute unit."""

    # A SIMD issues for a wave at most every fourth cycle: a wave of 64 passes 16 lanes in four steps (CDNA3 ISA, 1.2).
    issue: int = 4
    # One pass of the matrix unit (CDNA3 ISA, 7.1: "each pass is 4 cycles").
    matrix_pass: int = 4
    # Transcendental and 32-bit integer multiplication run at a quarter of the rate (CDNA3 ISA, 1.2; LLVM,
    # SISchedule.td: Write32Bit and WriteQuarterRate32).
    quarter_rate: int = 16
    # A branch, taken or not: the wave's next instruction must be fetched (LLVM, SISchedule.td: WriteBranch is 8).
    branch: int = 8
    # The scalar cache on a hit (LLVM, SISchedule.td: WriteSMEM is 5, which is too small for anything; estimate).
    scalar_load: int = 200
    # From issue of an LDS instruction to its data, besides the cycles of its phases (estimate).
    lds: int = 64
    # The data share moves 128 bytes a cycle (CDNA3 white paper, "Local Data Share").
    lds_bytes_per_cycle: int = 128
    # From issue to data for what the L2 holds (estimate).
    memory: int = 600
    # The vector cache gives a compute unit 64 bytes a cycle (CDNA3 white paper, "vector cache", 128-byte lines).
    memory_bytes_per_cycle: int = 64
    # The address unit takes four lanes a cycle (GCN3 architecture, "TA"; estimate for CDNA).
    address_lanes_per_cycle: int = 16
    # From the last arrival at s_barrier until the waves go on (estimate).
    barrier: int = 16
    # SIMDs of a compute unit, waves of a SIMD, vector registers of a lane (CDNA3 ISA, 1.2 and 3.6.4).
    simds: int = 4
    waves_per_simd: int = 8
    registers: int = 512


BANKS = {"gfx942": 32, "gfx950": 64}  # LDS banks of four bytes (CDNA3 ISA, 11.1; CDNA4 ISA, 11.1)

# Lanes of a half wave that ds_read_b128 and ds_write_b128 serve together on 64 banks (found by measurement by the
# HipKittens project); the other half wave follows. With 32 banks each of these takes two turns.
WIDE_PHASES = ((0, 1, 2, 3, 12, 13, 14, 15, *range(20, 28)), (*range(4, 12), 16, 17, 18, 19, *range(28, 32)))
