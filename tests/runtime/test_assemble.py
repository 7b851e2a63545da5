"""The assembler: counts, and errors that lead to the PTX line and the user's line."""

from __future__ import annotations

import dataclasses
import struct
import sys
from pathlib import Path

import pytest

from minitile.backends.nvidia import assemblers
from minitile.backends.nvidia.assemble import (
    AssembleError,
    AssembleOptions,
    AssemblerMissing,
    assemble,
    assembler_name,
    by_driver,
    needs_whole_program,
    read_log,
    remarks,
)
from minitile.backends.nvidia.assemblers import Ptxas, assembler_for, find_ptxas
from minitile.backends.nvidia.backend import BACKEND
from minitile.ir.diagnostics import HostError, TargetError
from tests.runtime.vector_add import PTX


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90", "sm_90a"])
def test_counts(arch):
    done = assemble(PTX, arch)
    assert done.cubin.startswith(b"\x7fELF")
    assert 4 <= done.registers <= 32
    assert (done.spill_stores, done.spill_loads, done.stack, done.shared) == (0, 0, 0, 0)
    assert done.warnings == ()


def spilling(live=64):
    """A kernel that keeps `live` loaded values in registers at once."""
    loads = "\n".join(f"ld.volatile.global.f32 %f{i}, [%p+{4 * i}];" for i in range(live))
    stores = "\n".join(f"st.volatile.global.f32 [%p+{4 * i}], %f{live - 1 - i};" for i in range(live))
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry spills(.param .u64 p) {{
.reg .b64 %p; .reg .f32 %f<{live}>; .shared .align 4 .b8 unused[256];
ld.param.u64 %p, [p];
{loads}
bar.sync 0;
{stores}
ret; }}
"""


def test_spills_are_counted():
    free, tight = assemble(spilling(), "sm_80"), assemble(spilling(), "sm_80", AssembleOptions(max_registers=32))
    assert free.registers > 64
    assert free.spill_stores == 0
    assert tight.registers <= 32
    assert tight.spill_stores > 0
    assert tight.spill_loads > 0
    assert tight.stack > 0


def test_static_shared_memory_is_counted():
    ptx = spilling().replace("bar.sync 0;", "st.shared.f32 [unused+4], %f0; bar.sync 0; ld.shared.f32 %f0, [unused+4];")
    assert assemble(ptx, "sm_80").shared == 256


def test_error_names_the_ptx_line_and_the_users(tmp_path):
    source = tmp_path / "vector_add.py"
    source.write_text("\n" * 10 + "        C[i] = A[i] + B[i]\n")
    bad = PTX.replace("vector_add.py", str(source)).replace("add.f32 %sum, %x, %y", "add.f32 %sum, %x, %nowhere")
    with pytest.raises(AssembleError) as caught:
        assemble(bad, "sm_80")
    line = next(i for i, text in enumerate(bad.splitlines(), 1) if "%nowhere" in text)
    assert caught.value.ptx_line == line
    assert f"PTX line {line}: " in str(caught.value)
    assert "add.f32 %sum, %x, %nowhere;" in str(caught.value)
    assert f'File "{source}", line 11' in str(caught.value)
    assert "C[i] = A[i] + B[i]" in str(caught.value)


def test_error_without_a_line():
    with pytest.raises(AssembleError, match="cannot be assembled for sm_75: SM version"):
        assemble(PTX, "sm_75")


def test_unknown_architecture():
    with pytest.raises(TargetError, match="-arch=sm_999"):
        assemble(PTX, "sm_999")


def test_missing_assembler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(assemblers, "_loaded", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    with pytest.raises(AssemblerMissing, match=r"pip install 'minitile\[cuda\]'"):
        assemble(PTX, "sm_80")
    assert assembler_name(PTX) is None


def test_the_largest_of_several_entries_counts():
    log = """ptxas info    : Compiling entry function 'a' for 'sm_80'
ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 8 bytes cumulative stack size, 512 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'b' for 'sm_80'
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, 380 bytes cmem[0]
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
"""
    assert read_log(log) == {
        "registers": 64,
        "shared": 512,
        "stack": 8,
        "spill_stores": 4,
        "spill_loads": 12,
        "warnings": (log.splitlines()[-1],),
    }


# Which assembler ------------------------------------------------------------------------------------------------------

ROLES = """.version 8.0
.target sm_90a
.address_size 64
.file 1 "roles.py"
.visible .entry roles(.param .u64 out)
.reqntid 256
.minnctapersm 1
{
.reg .b32 %t; .reg .b64 %p; .reg .pred %q;
mov.u32 %t, %tid.x;
setp.lt.u32 %q, %t, 128;
ld.param.u64 %p, [out];
@%q bra consumer;
.loc 1 7 5
setmaxnreg.dec.sync.aligned.u32 40;
ret;
consumer:
.loc 1 9 5
setmaxnreg.inc.sync.aligned.u32 208;
st.global.u32 [%p], %t;
ret;
}
"""
LOG = """ptxas info    : Compiling entry function 'roles' for 'sm_90a'
    0 bytes stack frame, {stores} bytes spill stores, {stores} bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""
CLEAN = LOG.format(stores=0)
CUBIN = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 2, 190, 1, 0, 0, 0, 0, 64, 56, 0, 64, 0, 0)


@pytest.fixture
def fake_ptxas(tmp_path, monkeypatch):
    """Makes the only ptxas there is a program that says what it is told to and writes a file."""

    def make(release="12.8", log=CLEAN, status=0, cubin=CUBIN):
        path = tmp_path / "ptxas"
        path.write_text(
            f"""#!{sys.executable}
import sys
if "--version" in sys.argv:
    print("Cuda compilation tools, release {release}, V{release}.61")
else:
    print({log!r}, file=sys.stderr)
    if {status} == 0:
        open(sys.argv[sys.argv.index("-o") + 1], "wb").write({cubin!r})
    sys.exit({status})
"""
        )
        path.chmod(0o755)
        assemblers._version.cache_clear()
        monkeypatch.setenv("MINITILE_PTXAS", str(path))

    return make


def test_a_text_needs_a_whole_program():
    assert needs_whole_program(ROLES)
    assert needs_whole_program("\twgmma.fence.sync.aligned;")
    assert needs_whole_program("  @%p setmaxnreg.inc.sync.aligned.u32 208;")
    assert not needs_whole_program(PTX)
    assert not needs_whole_program("// setmaxnreg is left out\n")


def test_setmaxnreg_goes_to_ptxas(fake_ptxas):
    fake_ptxas()
    done = assemble(ROLES, "sm_90a")
    assert (done.cubin, done.assembler, done.honoured, done.registers) == (CUBIN, "ptxas 12.8", True, 168)
    assert remarks(done, ROLES) == ()
    assert assemble(PTX, "sm_80").assembler.startswith("nvJitLink ")


def test_setmaxnreg_without_ptxas(monkeypatch):
    monkeypatch.setenv("MINITILE_PTXAS", "0")
    done = assemble(ROLES, "sm_90a")
    assert done.cubin.startswith(b"\x7fELF")
    assert not done.honoured
    assert "(C7504)" in done.warnings[0]
    for strict in (0, 1, 2):
        (remark,) = remarks(done, ROLES, strict)
        assert "(C7504) Potential Performance Loss: 'setmaxnreg' ignored" in remark
        assert "MINITILE_PTXAS" in remark
    assert "40 bytes per thread are spilled" in remarks(dataclasses.replace(done, spill_stores=40), ROLES)[0]
    assert remarks(dataclasses.replace(done, warnings=()), ROLES) == (), "nothing was lost after all"


def test_an_older_ptxas_is_passed_over(fake_ptxas):
    fake_ptxas("11.8")
    assert find_ptxas() is not None
    assert find_ptxas(ROLES) is None
    assert not assembler_for(ROLES).honours(ROLES)


@pytest.mark.parametrize("wrong", ["there is no such file", "it is not executable", "it says no release of CUDA"])
def test_a_ptxas_that_is_none(fake_ptxas, monkeypatch, tmp_path, wrong):
    """Who names one means that one: it is no other that is used, nor none."""
    fake_ptxas("not a release")
    path = tmp_path / ("nothing" if "no such" in wrong else "ptxas")
    if "executable" in wrong:
        path.chmod(0o644)
    monkeypatch.setenv("MINITILE_PTXAS", str(path))
    for call in (find_ptxas, lambda: assemble(ROLES, "sm_90a")):
        with pytest.raises(TargetError, match=f"MINITILE_PTXAS={path}: {wrong}") as caught:
            call()
        assert "unset it" in caught.value.hint
    assert assemble(PTX, "sm_80").assembler.startswith("nvJitLink "), "which needs none"
    assert wrong in dict(BACKEND.doctor())["ptxas"]


@pytest.mark.parametrize(
    ("release", "ptx"), [((12, 0), (8, 0)), ((12, 5), (8, 5)), ((12, 6), (8, 5)), ((13, 0), (9, 0))]
)
def test_the_ptx_of_a_release(release, ptx):
    assert Ptxas("ptxas", release).ptx_version == ptx


def test_ptxas_alone_will_do(fake_ptxas, monkeypatch):
    monkeypatch.setattr(assemblers, "_loaded", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    fake_ptxas()
    assert assemble(PTX, "sm_80").assembler == "ptxas 12.8"


def test_what_ptxas_rejects(fake_ptxas):
    fake_ptxas(log="ptxas kernel.ptx, line 19; error   : Unknown symbol 'x'\nptxas fatal   : aborted", status=255)
    with pytest.raises(AssembleError, match="PTX line 19: Unknown symbol 'x'") as caught:
        assemble(ROLES, "sm_90a")
    assert (caught.value.loc.file, caught.value.loc.line) == ("roles.py", 9)
    fake_ptxas(log="ptxas fatal   : Value 'sm_90a' is not defined for option 'gpu-name'", status=255)
    with pytest.raises(TargetError, match="does not know sm_90a"):
        assemble(ROLES, "sm_90a")


def test_half_a_cubin_is_an_error(fake_ptxas):
    whole = CUBIN[:60] + struct.pack("<HH", 2, 0) + bytes(128)  # two sections, which the header places at 0
    for half in (b"", CUBIN[:40], CUBIN[:40] + b"\x40" + whole[41:100]):
        fake_ptxas(cubin=half)
        with pytest.raises(HostError, match=r"wrote \d+ bytes that are no whole cubin"):
            assemble(ROLES, "sm_90a")


def test_a_ptxas_that_is_killed_has_not_refused_the_text(fake_ptxas):
    fake_ptxas(status="__import__('os').kill(__import__('os').getpid(), 9)")
    with pytest.raises(HostError, match=r"ptxas was ended by SIGKILL"):
        assemble(ROLES, "sm_90a")


def test_a_ptxas_that_hangs_is_ended(fake_ptxas, monkeypatch):
    fake_ptxas()
    assert find_ptxas() is not None
    fake_ptxas(status="__import__('time').sleep(60)")
    monkeypatch.setenv("MINITILE_HELPER_SECONDS", "0.5")
    with pytest.raises(HostError, match=r"ptxas took too long and was ended"):
        assemble(ROLES, "sm_90a")


def test_a_full_disk_is_an_error_of_ours(fake_ptxas, monkeypatch):
    fake_ptxas()
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(HostError, match=r"a temporary file cannot be used: .*No space left"):
        Ptxas(sys.executable, (12, 8)).run(ROLES, "sm_90a", AssembleOptions())


@pytest.mark.skipif(find_ptxas(ROLES) is None, reason="needs a ptxas")
def test_a_real_ptxas():
    done = assemble(ROLES, "sm_90a")
    assert done.cubin.startswith(b"\x7fELF")
    assert done.warnings == ()
    with pytest.raises(AssembleError, match="PTX line"):
        assemble(ROLES.replace("st.global.u32 [%p]", "st.global.u32 [%nowhere]"), "sm_90a")
    with pytest.raises(TargetError, match="sm_999"):
        assemble(ROLES, "sm_999")


# What is grave --------------------------------------------------------------------------------------------------------

SERIALISED = (
    "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to {}\n"
)


def said(fake_ptxas, note="", stores=0):
    fake_ptxas(log=note + LOG.format(stores=stores))
    return assemble(ROLES, "sm_90a")


def test_serialised_wgmma_is_an_error_at_the_users_line(fake_ptxas):
    done = said(fake_ptxas, SERIALISED.format("insufficient registers in the function 'roles' in line 19"))
    with pytest.raises(AssembleError, match=r"ptxas 12.8 for sm_90a: \(C7511\) Potential.*in line 19") as caught:
        remarks(done, ROLES)
    assert caught.value.ptx_line == 19
    assert (caught.value.loc.file, caught.value.loc.line) == ("roles.py", 9)
    assert "MINITILE_STRICT=0" in caught.value.hint
    (remark,) = remarks(done, ROLES, strict=0)
    assert "(C7511)" in remark


def test_a_fence_that_ptxas_adds_is_a_remark(fake_ptxas):
    done = said(fake_ptxas, "ptxas info    : (C7519) warpgroup.arrive is injected in around line 19 by compiler\n")
    (remark,) = remarks(done, ROLES, strict=1)
    assert "(C7519) warpgroup.arrive is injected" in remark
    with pytest.raises(AssembleError, match="C7519"):
        remarks(done, ROLES, strict=2)


def test_a_note_without_a_line(fake_ptxas):
    with pytest.raises(AssembleError) as caught:
        remarks(said(fake_ptxas, SERIALISED.format("ill formed pipeline stage")), ROLES)
    assert (caught.value.ptx_line, caught.value.loc.line) == (15, 7)


def test_other_advice_is_no_error(fake_ptxas):
    advice = "ptxas info    : (C7600) Potential Performance Loss: something else\n"
    assert remarks(said(fake_ptxas, advice), ROLES, strict=2) == ()


def test_spills(fake_ptxas, monkeypatch):
    done = said(fake_ptxas, stores=24)
    monkeypatch.delenv("MINITILE_STRICT", raising=False)
    (remark,) = remarks(done, ROLES)
    assert "24 bytes per thread of spill stores, 24 bytes of spill loads" in remark
    monkeypatch.setenv("MINITILE_STRICT", "1")
    with pytest.raises(AssembleError, match="24 bytes") as caught:
        remarks(done, ROLES)
    assert caught.value.loc.line == 7


def test_what_the_driver_says():
    note = SERIALISED.format("too few registers").replace("ptxas info", "info")
    done = by_driver("sm_90a", 168, 32, 1024, note + "info    : used 168 registers, 32 stack, 1024 bytes smem\n")
    assert (done.registers, done.stack, done.shared, done.spill_stores) == (168, 32, 1024, 0)
    with pytest.raises(AssembleError, match=r"the driver's JIT for sm_90a: \(C7511\)"):
        remarks(done, ROLES)
    done = by_driver("sm_90a", 168, 32, 0, LOG.format(stores=8))
    assert (done.spill_stores, done.spill_loads) == (8, 8)
    assert remarks(by_driver("sm_90a", 168, 0, 0, ""), ROLES) == ()
