"""The names of entries, which profilers show: kernel and specialisation, in letters that every assembler takes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import minitile as mt
import minitile.language as T
from minitile.language.tracing.entry_name import LONGEST


@mt.kernel
def shown(A: T.Tensor(("N",), None), x=0.5, t="row", fast=True, block_M=64, d=T.float32, more=None):
    with T.Kernel(T.ceildiv(A.shape[0], block_M), threads=64) as bx:
        for i in T.Parallel(block_M):
            A[bx * block_M + i] = A[bx * block_M + i]


def named(target="sm_80", dtype="float16", strides=None, aligned=True, **constants):
    return shown.compile(mt.spec("N", dtype, strides, aligned), target=target, **constants)


@pytest.mark.parametrize(
    ("constants", "name"),
    [
        ({}, "shown__f16"),
        ({"dtype": "bfloat16", "block_M": 128}, "shown__block_M128_bf16"),
        ({"x": -1.5, "t": "a b", "fast": False}, "shown__xm1p5_t_a_b_no_fast_f16"),
        ({"d": T.float16, "more": (1, 2)}, "shown__d_f16_f16"),
        ({"strides": ("s",)}, "shown__f16_strided"),
        ({"strides": ("s",), "aligned": False}, "shown__f16_strided_unaligned"),
        ({"block_M": np.int64(64), "x": np.float32(0.5)}, "shown__f16"),
        ({"x": 1}, "shown__x1_f16"),
        ({"t": "größe"}, "shown__t_gruf6udfe_f16"),
    ],
)
def test_the_name_of_an_entry(constants, name):
    compiled = named(**constants)
    assert compiled.launch_info.entry == name
    assert f".visible .entry {name}(" in compiled.asm["ptx"]


def test_defaults_that_were_chosen_later_count_as_others():
    """A tuned kernel is named by what it was tuned to."""
    tuned = shown.configured(block_M=32)
    assert tuned.compile(mt.spec("N", "float32"), target="sm_80").launch_info.entry == "shown__block_M32_f32"


def test_long_names_end_with_a_digest():
    names = {named(t=letter * 200).launch_info.entry for letter in "ab"}
    assert len(names) == 2
    for name in names:
        assert len(name) == LONGEST
        assert re.fullmatch(r"shown__t_[ab]+_[0-9a-f]{8}", name)


@pytest.mark.parametrize("target", ["sm_90a", "gfx942", "gfx950"])
def test_names_that_are_not_ascii_assemble(target):
    @mt.kernel
    def größe(A: T.Tensor(("N",), T.float32)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = 1.0

    compiled = größe.compile(target=target)
    assert compiled.launch_info.entry == "gruf6udfe"
    a = np.zeros(64, np.float32)
    compiled.simulate(a)
    assert a.all()
    if target == "sm_90a":
        assert b"gruf6udfe" in compiled.binary
