"""The text around the instructions: header, parameters, `.loc`, limits, names."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.backends.nvidia.assemble import assemble
from minitile.backends.nvidia.emit.ptx import Registers, at, identifier, literal
from minitile.ir.core import Value
from minitile.ir.diagnostics import Location
from minitile.ir.ops import arith
from minitile.ir.types import DTYPES, ScalarType, bf16, bool_, dtype, f32, f64, i32
from minitile.runtime.sim import run_ptx
from minitile.target import parse_target
from tests.backends.nvidia.harness import SM80, Make, raw


@pytest.mark.parametrize("name", [n for n in DTYPES if n not in ("e4m3", "e5m2")])
def test_scalar_parameters(name: str) -> None:
    make = Make({"out": name})
    scalar = Value(ScalarType(dtype(name)), name="alpha")
    make.kernel.params = (*make.kernel.params, scalar)
    make.store("out", make.thread(), scalar)
    module = make.write()
    assert module.params == (("out", "pointer", name), ("alpha", "scalar", name))
    assemble(module.text, "sm_80")
    out = np.zeros(32, dtype(name).numpy)
    value = np.ones(1, dtype(name).numpy)
    plain = value.view(f"u{value.itemsize}") if name in ("bf16", "bool") else value
    report = run_ptx(module.text, "k", (1,), (32,), [raw(out), plain[0]])
    assert not report.findings
    assert np.all(out == value[0])


def test_header() -> None:
    make = Make({"x": "f32"}, threads=96, shared_bytes=4096, min_ctas=2)
    make.store("x", make.thread(), make.constant(0.0, f32))
    text = make.write().text
    head = text[: text.index("{")]
    for line in (
        ".version 8.0",
        ".target sm_80",
        ".address_size 64",
        ".extern .shared .align 1024 .b8 smem[];",
        ".visible .entry k(",
        ".param .u64 .ptr .global .align 16 x",
        ".reqntid 96",
        ".minnctapersm 2",
    ):
        assert line in head
    assemble(text, "sm_80")


def test_targets() -> None:
    for name, isa, lowering in (("sm_80", "8.0", "sm_80"), ("sm_89", "8.4", "sm_89"), ("sm_90a", "8.4", "sm_90a")):
        make = Make({"x": "f32"})
        make.store("x", make.thread(), make.constant(0.0, f32))
        text = make.write(parse_target(name)).text
        assert f".version {isa}\n.target {lowering}\n" in text
        assemble(text, name)


def test_locations() -> None:
    """A `.loc` where the line changes, and none for what leaves no instruction."""
    make = Make({"x": "f32"})
    here, there = Location("kernel.py", 10, 4), Location('dir/he"lper.py', 3, 0)
    make.loc = here
    index = make.thread()
    x = make.load("x", index)
    make.loc = Location("kernel.py", 11, 0)
    make.constant(1.0, f32)
    make.loc = there
    doubled = make.emit(arith.Add(x, x)).result
    make.loc = here
    make.store("x", index, doubled)
    text = make.write().text
    assert '.file 1 "kernel.py"' in text
    assert '.file 2 "dir/he\'lper.py"' in text
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith(".loc")] == [".loc 1 10 5", ".loc 2 3 1", ".loc 1 10 5"]
    assert lines[lines.index(".loc 2 3 1") + 1].startswith("add.f32")
    assemble(text, "sm_80")


def test_parameters_of_one_name() -> None:
    make = Make({"k": "f32", "smem": "f32"})
    for tensor in make.tensors.values():
        tensor.name = "k"
    make.store("k", make.thread(), make.load("smem", make.thread()))
    module = make.write()
    assert len({name for name, _, _ in module.params}) == 2
    assemble(module.text, "sm_80")


def test_literals() -> None:
    assert literal(1.0, f32) == "0f3F800000"
    assert literal(-0.0, f32) == "0f80000000"
    assert literal(1e39, f32) == "0f7F800000"
    assert literal(float("inf"), f64) == "0d7FF0000000000000"
    assert literal(1.0, bf16) == "0x3F80"
    assert literal(-3, i32) == "-3"
    assert literal(True, bool_) == "1"


def test_addresses_and_names() -> None:
    assert at("%a", 0) == "[%a]"
    assert at("%a", -4) == "[%a+-4]"
    assert at("smem", 16) == "[smem+16]"
    assert identifier("x_1") == "x_1"
    assert identifier("_x") == "v_x"
    assert identifier("é") == "v"
    registers = Registers()
    assert registers.many("f32", 3, "x") == ["%x0", "%x1", "%x2"]
    assert registers.one("b32", "x1") == "%x1_1"
    assert registers.one("b32", "y1") == "%y1"
    assert registers.many("f32", 2, "y") == ["%y_1_0", "%y_1_1"]
    assert registers.one("b32") == "%r0"
    assert registers.one("b32", "laneid") == "%laneid_1"
    assert SM80.isa == "8.0"
