"""The assembler: counts, and errors that lead to the PTX line and the user's line."""

from __future__ import annotations

import sys

import pytest

from minitile.backends.nvidia import assemble as assembler
from minitile.backends.nvidia.assemble import AssembleError, AssembleOptions, AssemblerMissing, assemble, read_log
from minitile.ir.diagnostics import TargetError

from .vector_add import PTX


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
    monkeypatch.setattr(assembler, "_loaded", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(AssemblerMissing, match=r"pip install 'minitile\[cuda\]'"):
        assemble(PTX, "sm_80")
    assert assembler.nvjitlink_version() is None


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
