"""Code objects: linked where an lld is, read back from the ELF file, and refused where they contradict themselves."""

from __future__ import annotations

import dataclasses
import re
import struct
import sys
from pathlib import Path

import pytest

import minitile as mt
from minitile.backends.amd.assemble import comgr, link
from minitile.backends.amd.assemble.code_object import read_code_object, unpack
from minitile.backends.amd.program import check_wait_states
from minitile.backends.amd.verify.check import costs
from minitile.ir.diagnostics import InternalError, TargetError
from minitile.runtime.launch_info import param_layout
from minitile.target import TARGETS

pytest.importorskip("llvmlite")
sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import gemm
import vector_add

BOTH = ("gfx942", "gfx950")
needs_lld = pytest.mark.skipif(
    link.find_linker() is None, reason="no ld.lld here: apt-get install lld, or MINITILE_LLD"
)


def a_gemm(target):
    tiles = {"block_M": 64, "block_N": 64, "block_K": 32, "num_stages": 2, "threads": 128}
    return gemm.gemm_nt_bf16().compile(target=target, **tiles)


@needs_lld
@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("make", [a_gemm, lambda target: vector_add.add.compile(target=target)], ids=["gemm", "add"])
def test_what_is_linked_is_what_was_compiled(make, target):
    kernel = make(target)
    made = read_code_object(kernel.binary)
    info, cost = kernel.launch_info, costs(kernel.text)
    assert (made.arch, made.version, made.entry) == (target, 5, info.entry)
    assert made.threads == info.block[0]
    assert (
        (made.lds, made.vgprs, made.spills) == (cost.lds, kernel.registers, kernel.spills) == (cost.lds, cost.vgprs, 0)
    )
    # where a launch puts the parameters
    form, offsets = param_layout(info.params)
    assert tuple(a.offset for a in made.arguments) == offsets
    assert [a.name for a in made.arguments] == [p.name for p in info.params]
    assert struct.calcsize("<" + form) <= made.kernarg
    kinds = ["global_buffer" if p.dtype == "pointer" else "by_value" for p in info.params]
    assert [a.kind for a in made.arguments] == kinds


@needs_lld
def test_the_same_every_time():
    assert a_gemm("gfx942").binary == a_gemm("gfx942").binary


@needs_lld
def test_a_file_that_contradicts_itself_is_refused():
    data = a_gemm("gfx950").binary
    made = read_code_object(data)
    at = data.index(struct.pack("<III", made.lds, made.scratch, made.kernarg))
    descriptor = data[at : at + 64]
    for broken, said in (
        (data[:5000], "cannot be read back"),
        (data.replace(b"\x7fELF\x02\x01\x01\x40", b"\x7fELF\x02\x01\x01\x00"), "no ELF file of a GPU"),
        (data[:48] + b"\x4c" + data[49:], "its header says gfx942"),
        (data.replace(b"gemm.kd", b"gemm.kx", 1), "cannot be read back: KeyError"),
        (data.replace(descriptor, descriptor[:16] + b"\0" * 8 + descriptor[24:]), "does not lead to the code"),
    ):
        assert broken != data
        with pytest.raises(InternalError, match=said):
            read_code_object(broken)


@needs_lld
def test_a_relocatable_is_not_loadable():
    kernel = a_gemm("gfx942")
    with pytest.raises(InternalError, match="no ELF file of a GPU that a loader takes"):
        read_code_object(link.compiled(kernel.asm["llvm"], TARGETS["gfx942"], "object"))


@needs_lld
def test_it_must_be_of_its_assembly():
    kernel = a_gemm("gfx942")
    made = read_code_object(kernel.binary)
    link.check_code_object(made, kernel.target, kernel.text)
    with pytest.raises(InternalError, match="not of its assembly"):
        link.check_code_object(dataclasses.replace(made, vgprs=made.vgprs + 8), kernel.target, kernel.text)
    with pytest.raises(InternalError, match="not of its assembly"):
        link.check_code_object(made, TARGETS["gfx950"], kernel.text)


def test_nothing_that_links(monkeypatch):
    kernel = a_gemm("gfx950")
    monkeypatch.setattr(link, "find_linker", lambda: None)
    monkeypatch.setattr(comgr, "available", lambda: False)
    with pytest.raises(mt.MinitileError, match=r"no ld\.lld to link a code object with, and no ROCm") as caught:
        _ = kernel.binary
    assert "your distribution's package lld" in caught.value.hint
    assert "_ = kernel.binary" in str(caught.value)


def test_comgr_links_where_there_is_no_lld(monkeypatch):
    asked = []
    kernel = a_gemm("gfx950")
    monkeypatch.setattr(link, "find_linker", lambda: None)
    monkeypatch.setattr(comgr, "available", lambda: True)
    monkeypatch.setattr(comgr, "link", lambda data, arch: asked.append((data[:4], arch)) or b"nothing")
    with pytest.raises(InternalError, match="cannot be read back"):
        _ = kernel.binary
    assert asked == [(b"\x7fELF", "gfx950")]


def test_a_linker_that_is_not_there(monkeypatch):
    monkeypatch.setenv("MINITILE_LLD", "/nowhere/ld.lld")
    with pytest.raises(TargetError, match=r"/nowhere/ld\.lld does not run"):
        _ = a_gemm("gfx942").binary


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("c0", None),
        ("93 01 ff cd 01 00", [1, -1, 256]),
        ("82 a1 61 c3 a1 62 90", {"a": True, "b": []}),
        ("d9 02 68 69", "hi"),
        ("de 00 01 a0 d1 ff 00", {"": -256}),
        ("dc 00 01 ce 00 01 00 00", [65536]),
        ("c4 01 07", b"\x07"),
        ("cb 3f f8 00 00 00 00 00 00", 1.5),
    ],
)
def test_message_pack(data, value):
    assert unpack(bytes.fromhex(data)) == value


@pytest.mark.parametrize("data", ["c1", "c0 c0", "a3 61", "d4 00 00"])
def test_message_pack_that_is_refused(data):
    with pytest.raises(ValueError, match="MessagePack"):
        unpack(bytes.fromhex(data))


def test_wait_states_are_checked_before_a_gpu_gets_the_code():
    kernel = a_gemm("gfx942")
    entry = kernel.launch_info.entry
    check_wait_states(kernel.text, entry)
    without = re.sub(r"\n\ts_nop \d+", "", kernel.text)
    assert without != kernel.text
    with pytest.raises(InternalError, match=r"too few wait states: .*wait states are needed, there are"):
        check_wait_states(without, entry)
