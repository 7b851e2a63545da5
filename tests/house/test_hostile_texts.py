"""Texts that are broken or ask for too much: refused as errors of ours, at once, and without the simulator's last
resort, which is off here. Most are the smallest forms of what `make fuzz-text` found."""

from __future__ import annotations

import numpy as np
import pytest

from minitile.ir.attributes import kinds_of
from minitile.ir.core import Op
from minitile.ir.diagnostics import IRError
from minitile.runtime.sim import SimulationError, run_gcn, run_ptx
from minitile.runtime.sim.amdgcn import forms as gcn_forms
from minitile.runtime.sim.amdgcn import table as gcn_table
from minitile.runtime.sim.core import errors
from minitile.runtime.sim.ptx import forms, table
from minitile.tools import cli, opt
from minitile.tools.opt import optimize
from tests.fuzz import texts

IR = (
    "tile kernel @k(%%A: tensor<64xf32>, %%n: i32) %s {\n"
    "  launch 1, 1, 1 {threads = 32} (%%x: i32, %%y: i32, %%z: i32) {\n%s\n  }\n}\n"
)
PTX = ".version 8.0\n.target sm_80\n.address_size 64\n%s\n.visible .entry k(.param .u64 A%s)\n{\n%s\nret;\n}\n"
GCN = (
    '\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"\nk:\n\t%s\n\ts_endpgm\n'
    "\t.amdhsa_kernel k\n\t%s\n\t.end_amdhsa_kernel\n%s"
)


@pytest.fixture(autouse=True)
def no_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "LAST_RESORT", False)
    monkeypatch.setattr(opt, "LAST_RESORT", False)


def loops(count: int) -> str:
    return "".join(f"for 0, 2, 1 (%i{i}: i32) {{\n" for i in range(count)) + "}\n" * count


@pytest.mark.parametrize(
    ("attrs", "body", "message"),
    [
        ("", "%v = add %n, " + "9" * 5000, "a number of 5000 characters"),
        ("", "%v = add %n, 99999999999999999999", "does not fit 64 bits"),
        ("attrs {a = " + "(" * 900 + "1" + ",)" * 900 + "}", "", "brackets within one another"),
        ("", "%v = alloc {type_ = " + "future<" * 900 + ">" * 900 + "}", "'<' within one another"),
        ("", loops(1000), "regions within one another"),
        ("", "%v = pick 1.0 {indices = (0 * 1000000000,)}", "a tuple of 1000000000 elements"),
        ("", "%v = pick 1.0 {indices = (0, 1, .., 1000000000000)}", "a tuple of 1000000000001 elements"),
        ("", "%v = pick 1.0 {indices = (0 * 1" + "0" * 40 + ",)}", "does not fit 64 bits"),
        ("attrs {a = ((1 * 1000000,) * 1000000,)}", "", "a tuple of 1000000000000 elements"),
        ('attrs {a = "\\C"}', "", "this string cannot be read"),
        ("", '%v = add %n, 1 loc("k.py":true:5)', "expected an integer, found true"),
        ("", "%v = pick 1.0 {indices = inf}", r"pick's indices is tuple\[int, ...\], not inf"),
        ("", "for 0, %n, 1 {stages = 1.0} (%i: i32) {\n}", "for's stages is int, not 1.0"),
        ("attrs {threads = inf}", "", "the kernel's threads is int from 1 to 1024, not inf"),
        ("facts {n = 0}", "", "the fact of n is a number from 1 to"),
        ("", "%v = splat 1.0 {shape = (4096, 4096)} : tile<4096x4096xf32>", "16777216 elements; there may be"),
    ],
)
def test_ir(attrs: str, body: str, message: str) -> None:
    with pytest.raises(IRError, match=message):
        optimize(IR % (attrs, body), verify=True)


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("infer_layouts", "does not say how many threads it has"),
        ("lower", "the kernel does not|has no layout yet|does not say how many threads"),
        ("allocate_shared_memory", "the pass allocate_shared_memory is for thread IR; this is tile IR"),
    ],
)
def test_passes_on_what_is_not_theirs(passes: str, message: str) -> None:
    text = "%t = load %A[%x] {dims = (0,), shape = (32,)} : tile<32xf32>\nstore %A[%x], %t {dims = (0,)}"
    with pytest.raises(IRError, match=message):
        optimize(f"// pass: {passes}\n" + IR % ("", text))


REGISTERS = ".reg .pred %p;\n.reg .b16 %h<3>;\n.reg .b32 %r<9>;\n.reg .b64 %a<3>;\n.shared .b8 smem[64];\n"


@pytest.mark.parametrize(
    ("outside", "body", "message"),
    [
        ("", ".reg .b32 %x<20000000>;", "is no number from 0 to"),
        ("", ".reg .b32 %x<200000>;\n.reg .b32 %y<200000>;", "more than 262144 registers"),
        ("", ".reg .b32 %x<" + "9" * 5000 + ">;", "is no number from 0 to"),
        ("", ".local .b8 s[1099511627776];", "is no number from 0 to"),
        ("", ".local .b8 s[1000000];", "bytes of local memory; there may be"),
        (".global .b8 s[200000000];\n.global .b8 t[200000000];", "", "bytes of global variables; there may be"),
        ("", ".shared .align 0 .b8 s[16];", "is no number from 1 to 65536"),
        ("", ".shared .align 3 .b8 s[16];", "a power of two"),
        ("", ".shared .b8 s[08x];", "is no number"),
        ("", "st.global.u32 [" + "[" * 3000 + "%a1], 1;", "brackets or signs within one another"),
        ("", "st.shared.b32 [%r0+1" + "0" * 41 + "], %r1;", "a number of 42 characters"),
        ("", "st.shared.b32 [%r0+9223372036854775808], %r1;", "does not fit 64 bits"),
        ("", "add:.s32 %r1, %r2, %r2;", "a variable has a state space"),
        ("", "add.u32 %r1,", "takes 3 operands"),
        ("", "add.frob.u32 %r1, %r2, %r2;", "unsupported form of add"),
        ("", "mov.b32 %r1, {%h0, %h1, %h2};", "3 elements do not make up"),
        ("", "mov.b32 {}, %r1;", "0 elements do not make up"),
        ("", "st.shared.u32 [smem], !%p;", "predicates do not mix"),
        ("", "mov.b16 %h1, 0f3F800000;", "a floating-point constant is no"),
        ("", "stmatrix.sync.aligned.m8n8.x2.shared.b16 [smem], %r1;", "2 matrices need 2 registers"),
        ("", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, {%r1, %r2};", "movmatrix moves one register"),
        ("", ".loc 1", ".loc names a file and a line"),
        ("/* never ends", "", "a comment without its end"),
        (".func f", "", "."),
    ],
)
def test_ptx(outside: str, body: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        run_ptx(PTX % (outside, "", REGISTERS + body), "k", (1,), (32,), [np.zeros(64, np.float32)])


def test_a_parameter_without_its_alignment() -> None:
    with pytest.raises(SimulationError, match="a power of two"):
        run_ptx(PTX % ("", ", .param .u64 .ptr .global .align b", ""), "k", (1,), (32,), [])


def test_functions_that_call_each_other_deeply() -> None:
    chain = (
        "".join(f".func f{i}()\n{{\ncall f{i + 1}, ();\nret;\n}}\n" for i in range(300)) + ".func f300()\n{\nret;\n}\n"
    )
    with pytest.raises(SimulationError, match="functions call one another"):
        run_ptx(PTX % (chain, "", "call f0, ();"), "k", (1,), (32,), [np.zeros(4)])


METADATA = "\t.amdgpu_metadata\n---\namdhsa.kernels:\n%s\n...\n\t.end_amdgpu_metadata\n"


@pytest.mark.parametrize(
    ("line", "setting", "metadata", "message"),
    [
        ("v_add_f32_e32 v1", "", "", r"v_add_f32 takes .* not v\(1\)"),
        ("v_add_f32_e32 v1, v2, v3, v4", "", "", "v_add_f32 takes"),
        ("v_add_f32_e32 v1, v2, v[3:4]", "", "", "v_add_f32 takes"),
        ("v_add_f32_e32 v1, v2, v3 glc", "", "", "v_add_f32 has no modifier 'glc'"),
        ("v_mov_b32_dpp v1, v2 row_shl:99", "", "", "row_shl cannot be 99"),
        ("v_mov_b32_dpp v1, v2 quad_perm:[0,1]", "", "", "quad_perm cannot be"),
        ("v_mov_b32_e32 v256, 0", "", "", "there are 256 registers v"),
        ("v_mov_b32_e32 v[3:1], 0", "", "", "there are 256 registers v"),
        ("s_mov_b32 s102, 0", "", "", "there are 102 registers s"),
        ("s_mov_b32 s1, " + "9" * 5000, "", "", "a number of 5000 characters"),
        ("s_mov_b32 s1, 99999999999999999999", "", "", "does not fit 64 bits"),
        ("s_waitcnt vmcnt(99999999999999999999)", "", "", "no counters to wait for"),
        ("s_waitcnt lgkmcnt(1e400)", "", "", "no counters to wait for"),
        ("ds_swizzle_b32 v1, v2 offset:swizzle(SWAP)", "", "", "offset cannot be"),
        ("s_load_dword s1, s[2:3], 0x7fffffff", "", "", "no offset of a scalar load"),
        ("s_getreg_b32 |, hwreg(1)", "", "", "is not understood"),
        (".loc 1", "", "", ".loc names a file and a line"),
        ("s_nop 0", ".amdhsa_kernarg_size 1099511627776", "", "is not from 0 to 65536"),
        ("s_nop 0", ".amdhsa_user_sgpr_count -1", "", "is not from 0 to 32"),
        ("s_nop 0", ".amdhsa_kernarg_size x", "", "is not a plain number"),
        ("s_nop 0", "", "\t.data\nd:\n\t.zero 100000000000\n", "bytes of data"),
        ("s_nop 0", "", '\t.data\nd:\n\t.ascii "\\x"\n', "this string cannot be read"),
        ("s_nop 0", "", METADATA % "", "is no list"),
        ("s_nop 0", "", METADATA % "  - .name: k\n    .args:\n      - .offset: x", "is no number"),
        ("s_nop 0", "", METADATA % "\n".join(" " * i + f"a{i}:" for i in range(200)), "within one another|no list"),
    ],
)
def test_gcn(line: str, setting: str, metadata: str, message: str) -> None:
    with pytest.raises(SimulationError, match=message) as caught:
        run_gcn(GCN % (line, setting, metadata), "k", (1,), (64,), [])
    assert "GCN" in str(caught.value)


def test_grids_beyond_what_is_simulated() -> None:
    with pytest.raises(SimulationError, match="CTAs; the simulator runs"):
        run_ptx(PTX % ("", "", ""), "k", (1 << 30, 1 << 30), (32,), [np.zeros(4)])
    with pytest.raises(SimulationError, match="workgroups; the simulator runs"):
        run_gcn(GCN % ("s_nop 0", "", ""), "k", (1 << 30, 1 << 30), (64,), [])


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--seed", "-1", "x.ptx"],
        ["check", "--seed", "9" * 5000, "x.ptx"],
        ["check", "--block", "0", "x.ptx"],
        ["check", "--block", "1,2,3,4", "x.ptx"],
        ["check", "--grid", "99999999999", "x.ptx"],
        ["check", "--dynamic-shared", "-5", "x.ptx"],
        ["run", "--rounds", "0", "k.py"],
    ],
)
def test_numbers_of_the_command_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    assert "argument --" in capsys.readouterr().err


@pytest.mark.parametrize(
    "argument", ["f32[99999999999999999999]", "f32[" + "9" * 5000 + "]", "f32[1" + ",1" * 40 + "]", "i32=" + "9" * 5000]
)
def test_arguments_of_the_command_line(argument: str, capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    assert cli.main(["check", "--block", "32", "--arg", argument, "nothing.ptx"]) == 1
    assert "minitile check: " in capsys.readouterr().err


def test_every_instruction_has_a_form() -> None:
    """A row in the table of forms for each that the simulators execute, and no row for others."""
    assert set(table.INSTRUCTIONS) == set(forms.FORMS)
    assert set(gcn_table.INSTRUCTIONS) == set(gcn_forms.FORMS)
    assert {group for _, group in gcn_forms.FORMS.values()} <= set(gcn_forms.MODIFIERS)
    assert set(forms.FORMS) >= forms.QUIET


def test_every_attribute_has_a_kind() -> None:
    for kind in Op.registry.values():
        assert set(kinds_of(kind)) == {name for name, _ in kind.attr_fields}


@pytest.mark.parametrize("kind", ["ir", "ir_verify", "ir_passes", "ptx", "gcn"])
def test_some_mutants(kind: str) -> None:
    """A few of each kind that `make fuzz-text` tries by the thousand."""
    for seed in range(40):
        outcome, report = texts.one(kind, seed)
        assert outcome in ("accepted", "refused"), f"{kind}:{seed} {report}"
