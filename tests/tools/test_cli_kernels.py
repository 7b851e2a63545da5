"""`minitile compile`, `run` and `bench`: what they print, write and refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from minitile.driver.jit import Spec
from minitile.ir.diagnostics import MinitileError
from minitile.ir.types import bf16, f32
from minitile.tools import cli_args
from minitile.tools.cli import main
from minitile.tools.cli_kernels import load_kernel, parse_settings
from minitile.tools.explain import explain

ROOT = Path(__file__).parents[2]
KERNELS = """
import minitile as mt
import minitile.language as T


@mt.kernel
def scale(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32), factor: T.float32, block=256, threads=128):
    with T.Kernel(T.ceildiv(A.shape[0], block), threads=threads) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor


@mt.kernel
def reverse(A: T.Tensor((64,), T.float32), B: T.Tensor((64,), T.float32)):
    with T.Kernel(1, threads=64):
        S = T.alloc_shared((64,), T.float32)
        T.copy(A, S)
        for i in T.Parallel(64):
            B[i] = S[63 - i]


def make(dtype=T.float16):
    @mt.kernel
    def made(A: T.Tensor(("M", 64), dtype), B: T.Tensor(("M", 64), dtype)):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=128) as bx:
            F = T.alloc_fragment((64, 64), dtype)
            T.copy(A[bx * 64, 0], F)
            T.copy(F, B[bx * 64, 0])

    return made


def needs_more(size):
    return scale


def results():
    @mt.kernel
    def plus(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32) | None = None, x: T.float32 = 2.0):
        C = T.empty((A.shape[0],), T.float32)
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
            for i in T.Parallel(64):
                y = A[bx * 64 + i] + x
                if B is not None:
                    y = y * B[bx * 64 + i]
                C[bx * 64 + i] = y
        return C

    return plus
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """A file with kernels; the modules and paths that loading adds are taken back."""
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "kernels_of_test_cli.py"
    file.write_text(KERNELS)
    yield file
    sys.modules.pop(file.stem, None)


def test_compile_writes_ptx(kernels, capsys):
    assert main(["compile", f"{kernels}:scale", "--target", "sm_80"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(".version 8.0\n.target sm_80\n")
    assert ".entry scale(" in out


@pytest.mark.parametrize(
    ("stage", "text"), [("traced_ir", "traced kernel"), ("tile_ir", "tile kernel"), ("thread_ir", "thread kernel")]
)
def test_compile_writes_ir(kernels, capsys, stage, text):
    assert main(["compile", f"{kernels}:make", "--target", "sm_80", "--emit", stage]) == 0
    assert capsys.readouterr().out.startswith(text)


def test_compile_into_a_file(kernels, tmp_path, capsys):
    out = tmp_path / "scale.cubin"
    assert main(["compile", f"{kernels}:scale", "--target", "sm_80", "--emit", "cubin", "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x7fELF")
    assert capsys.readouterr().out == ""


def test_compile_for_sizes_and_settings(kernels, capsys):
    arguments = ["--arg", "f32[4096]", "--arg", "f32[4096]", "--arg", "f32=2", "--set", "block=512"]
    assert main(["compile", f"{kernels}:scale", "--target", "sm_80", *arguments, "--emit", "launch"]) == 0
    launch = json.loads(capsys.readouterr().out)
    assert launch["grid"][0] == ["floordiv", ["add", ["dim", "N"], 511], 512]
    assert ["divides", ["dim", "N"], 128] in launch["facts"]


def test_explain(kernels, capsys):
    arguments = ["--target", "sm_80", "--explain"]
    assert main(["compile", f"{kernels}:reverse", *arguments]) == 0
    out = capsys.readouterr().out
    found = dict(line.split(maxsplit=1) for line in out.splitlines()[1:])
    assert out.splitlines()[0] == "reverse for sm_80"
    assert found["launch"] == "grid 1 × 1 × 1, block 64 × 1 × 1, 256 bytes of shared memory"
    assert found["shared"] == "S at 0: 1 × 256 bytes, 64 f32"
    assert "0 bytes spilled" in found["assembled"]
    assert "1 bar" in found["instructions"]
    assert "assemble" in found["times"]
    # With something else on standard output, the explanation goes beside it.
    assert main(["compile", f"{kernels}:reverse", *arguments, "--emit", "ptx"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(".version")
    assert shown.err.startswith("reverse for sm_80")


def test_why(kernels, capsys):
    """Which pass, why, and both source lines; beside what is asked for on standard output."""
    assert main(["compile", f"{kernels}:reverse", "--target", "sm_80", "--why"]) == 0
    text = capsys.readouterr().out
    row = next(n for n, line in enumerate(text.splitlines()) if " bar.sync 0;" in line)
    by, reason, between, then = (line.split(maxsplit=1) for line in text.splitlines()[row + 1 : row + 5])
    assert (by, reason) == (["by", "thread_barriers"], ["reason", "RAW S (a read after a write)"])
    assert (between[0], then[0]) == ("between", "and")
    assert between[1].endswith("T.copy(A, S)")
    assert main(["compile", f"{kernels}:reverse", "--target", "sm_80", "--why", "--emit", "ptx"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(".version")
    assert shown.err == text


def test_explain_a_line(kernels, tmp_path, capsys):
    """Of a kernel's source, or of assembly, whose text says all that is needed."""
    source = kernels.read_text(encoding="utf-8").splitlines()
    copy = source.index("        T.copy(A, S)") + 1
    assert main(["explain", f"{kernels}:reverse", "--target", "sm_80", "--line", str(copy)]) == 0
    of_kernel = capsys.readouterr().out
    assert "thread_barriers" in of_kernel
    assert main(["explain", f"{kernels}:reverse", "--target", "sm_80", "--line", "1"]) == 1
    assert "has to do with line 1\n" in capsys.readouterr().out
    ptx = tmp_path / "reverse.ptx"
    assert main(["compile", f"{kernels}:reverse", "--target", "sm_80", "-o", str(ptx)]) == 0
    line = next(n for n, text in enumerate(ptx.read_text().splitlines(), 1) if " bar.sync" in text)
    assert main(["explain", str(ptx), "--line", str(line)]) == 0
    assert capsys.readouterr().out in of_kernel
    assert main(["explain", str(ptx), "--line", "1"]) == 1
    assert main(["explain", str(tmp_path / "none.ptx")]) == 1
    assert main(["explain", f"{kernels}:reverse", "--target", "gfx942"]) == 0
    assert "thread_barriers" in capsys.readouterr().out


def test_explain_says_what_was_not_done(kernels, capsys):
    kernel = f"{ROOT / 'examples' / 'gemm.py'}:gemm_nt_bf16"
    assert main(["compile", kernel, "--target", "sm_90a", "--explain"]) == 0
    assert "\n  note         not warp-specialised: the rows of A may not be" in capsys.readouterr().out
    sizes = ["--arg", "bf16[512,512]"] * 3
    assert main(["compile", kernel, "--target", "sm_90a", "--explain", *sizes]) == 0
    out = capsys.readouterr().out
    assert "\n  note " not in out
    assert " wgmma.mma_async" in out


def test_explain_counts_tcgen05(capsys):
    kernel = f"{ROOT / 'examples' / 'gemm.py'}:gemm_nt_bf16"
    sizes = ["--arg", "bf16[512,512]"] * 3
    assert main(["compile", kernel, "--target", "sm_100a", "--explain", *sizes]) == 0
    (counted,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  instructions "))
    names = {"tcgen05.alloc", "tcgen05.mma", "tcgen05.commit", "tcgen05.ld", "tcgen05.relinquish_alloc_permit"}
    assert names <= set(counted.replace(",", "").split())


def test_explain_without_assembler(kernels, monkeypatch):
    from minitile.backends.nvidia import program
    from minitile.backends.nvidia.assemble import AssemblerMissing

    def missing(*_):
        raise AssemblerMissing("no nvJitLink", hint="pip install it")

    monkeypatch.setattr(program, "assemble_cached", missing)
    text = explain(load_kernel(f"{kernels}:scale").compile(target="sm_80"))
    assert "not: no nvJitLink; pip install it" in text


def test_leaving_out_a_pass(kernels, capsys):
    assert main(["compile", f"{kernels}:scale", "--target", "sm_80", "--without", "cse"]) == 0
    assert main(["compile", f"{kernels}:scale", "--target", "sm_80", "--without", "lower"]) == 1
    assert "lower" in capsys.readouterr().err


def test_run(kernels, capsys):
    arguments = ["--arg", "f32[1000]=3", "--arg", "f32[1000]=nan", "--arg", "f32=0.5"]
    assert main(["run", f"{kernels}:scale", *arguments, "--on", "simulator"]) == 0
    a, b, factor, *rest = capsys.readouterr().out.splitlines()
    assert a.split() == ["A", "float32[1000]", "unchanged", "least", "3,", "most", "3,", "mean", "3"]
    assert b.split() == ["B", "float32[1000]", "written", "least", "1.5,", "most", "1.5,", "mean", "1.5"]
    assert factor.split() == ["factor", "float32", "=", "0.5"]
    assert rest[0].startswith("compiled for sm_80 in ")
    assert rest[-1] == "no findings"


@pytest.mark.parametrize(
    ("given", "names", "result"),
    [
        (["f32[70]=3"], ["A", "x", "C"], "5"),
        (["f32[70]=3", "f32[70]=2"], ["A", "B", "x", "C"], "10"),
        (["f32[70]=3", "none", "f32=0.5"], ["A", "x", "C"], "3.5"),
    ],
)
def test_run_and_check_as_a_call_does(kernels, capsys, given, names, result):
    """Optional tensors and scalars with defaults may be left out, and results are made."""
    kernel, words = f"{kernels}:results", [word for each in given for word in ("--arg", each)]
    assert main(["run", kernel, *words, "--on", "simulator"]) == 0
    *lines, _, _, _ = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == names
    assert lines[-1].split()[2:] == ["written", "least", f"{result},", "most", f"{result},", "mean", result]
    assert main(["check", kernel, *words]) == 0
    assert "plus: " in capsys.readouterr().err
    assert main(["check", kernel, *words, "--masked"]) == 0
    assert "58 elements outside of C not written" in capsys.readouterr().out


def test_too_many_arguments(kernels, capsys):
    assert main(["run", f"{kernels}:results", *["--arg", "f32[70]"] * 5]) == 1
    assert "plus takes 1 to 3 arguments (A, B, x), and 5 are given" in capsys.readouterr().err


def test_run_finds_a_race(kernels, capsys, monkeypatch):
    from minitile.driver import pipeline

    passes = [(n, (lambda kernel, context: None) if n == "thread_barriers" else p) for n, p in pipeline.THREAD_PASSES]
    monkeypatch.setattr(pipeline, "THREAD_PASSES", passes)
    arguments = [f"{kernels}:reverse", "--arg", "f32[64]", "--arg", "f32[64]", "--on", "simulator"]
    assert main(["run", *arguments]) == 1
    error = capsys.readouterr().err
    assert "minitile run: " in error
    assert "missing_barrier (RAW)" in error
    assert "B[i] = S[63 - i]" in error
    assert main(["run", *arguments, "--no-check"]) == 0
    assert "races were not looked for" in capsys.readouterr().out


@pytest.mark.gpu
def test_run_on_the_gpu(kernels, capsys):
    arguments = ["--arg", "f32[1000]=3", "--arg", "f32[1000]=nan", "--arg", "f32=0.5"]
    assert main(["run", f"{kernels}:scale", *arguments]) == 0
    out = capsys.readouterr().out
    assert "least 1.5, most 1.5" in out
    assert "µs" in out
    assert main(["bench", f"{kernels}:make", "--arg", "bf16[128,64]", "--arg", "bf16[128,64]"]) == 1  # made for f16
    assert main(["bench", f"{kernels}:make", "--arg", "f16[128,64]", "--arg", "f16[128,64]"]) == 0


def test_bench_lists_and_runs_scripts(capfd):
    assert main(["bench"]) == 0
    assert "launch" in capfd.readouterr().out.split()
    assert main(["bench", "launch", "--help"]) == 0
    assert "Host time of a launch" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["compile", "nowhere.py:x"], "there is no file nowhere.py"),
        (["compile", "{file}"], "has the kernels scale, reverse\n  hint: name one: {file}:KERNEL"),
        (["compile", "{file}:other"], "has no kernel 'other'\n  hint: it has the kernels scale, reverse"),
        (["compile", "{file}:needs_more"], "missing 1 required positional argument: 'size'"),
        (["compile", "{file}:scale", "--target", "sm_12"], "unknown target 'sm_12'"),
        (["compile", "{file}:scale", "--set", "block"], "'block' sets nothing"),
        (["compile", "{file}:scale", "--set", "width=3"], "has no compile-time parameter 'width'"),
        (["compile", "{file}:scale", "--set", "threads=100"], "threads=100"),
        (["compile", "{file}:scale", "--arg", "f32{{4}}"], "'f32{{4}}' is no tensor"),
        (["compile", "{file}:scale", "--arg", "f99[4]"], "unknown dtype 'f99'"),
        (["compile", "{file}:scale", "--arg", "f32[4]"], "has 2 tensors, and 1 specs are given"),
        (["compile", "{file}:scale", "-o", "{file}/x"], "cannot write {file}/x"),
        (["run", "{file}:scale", "--arg", "f32[4]"], "takes 3 arguments (A, B, factor), and 1 are given"),
        (["bench", "nothing"], "there is no benchmark 'nothing'"),
    ],
)
def test_what_is_wrong(kernels, capsys, words, message):
    assert main([word.format(file=kernels) for word in words]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"minitile {words[0]}: ")
    assert message.format(file=kernels) in shown.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [1,\n", "SyntaxError: '[' was never closed"),
        ("import nothing_by_this_name\n", "ModuleNotFoundError: No module named 'nothing_by_this_name'"),
        ("x = 1\ny = x.there\n", "AttributeError: 'int' object has no attribute 'there'"),
    ],
)
def test_a_broken_file(kernels, capsys, text, message):
    kernels.write_text(text)
    assert main(["compile", str(kernels)]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert str(kernels) in error
    assert "^" in error


def test_settings():
    found = parse_settings(["block_M=128", "flag=True", "dtype=bfloat16", "name=plain", "shape=(1, 2)"])
    assert found == {"block_M": 128, "flag": True, "dtype": bf16, "name": "plain", "shape": (1, 2)}


def test_specs():
    assert cli_args.parse_specs(["f32[4, 5]", "i32=5", "bfloat16[M,8]"]) == [Spec((4, 5), f32), Spec(("M", 8), bf16)]
    with pytest.raises(MinitileError, match="is no tensor"):
        cli_args.parse_specs(["f32[4"])


def test_from_a_shell(kernels):
    command = [sys.executable, "-m", "minitile", "compile", f"{kernels}:scale", "--target", "sm_80"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ".entry scale(" in done.stdout


def test_an_error_without_a_line_of_the_users(kernels):
    """What calls the command line, as `python -m minitile`, is no line that could be mended."""
    command = [sys.executable, "-m", "minitile", "compile", f"{kernels}:scale", "--target", "sm_123"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "unknown target 'sm_123'" in done.stderr
    assert "File" not in done.stderr


def test_no_script(capsys):
    assert main(["tilelang", "nowhere.py"]) == 1
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_script_of_a_package_that_is_not_there(tmp_path, capsys):
    """No traceback of ours; an import that fails in a package that is there stays as it is."""
    script = tmp_path / "script.py"
    script.write_text("import no_such_package.part\n", encoding="utf-8")
    assert main(["tilelang", str(script)]) == 1
    said = capsys.readouterr().err
    assert "script.py needs no_such_package, which is not installed" in said
    assert "--compile-only" in said
    assert "Traceback" not in said
    script.write_text("import json.no_such_part\n", encoding="utf-8")
    with pytest.raises(ModuleNotFoundError):
        main(["tilelang", str(script)])
