"""The pass manager's switches and `minitile opt`, with small passes made for the purpose."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from minitile.ir.core import Kernel
from minitile.ir.diagnostics import IRError, MinitileError, TargetError
from minitile.ir.ops import arith
from minitile.ir.parser import parse_kernel
from minitile.tools import opt
from minitile.transforms.manager import PassContext, run_passes

TEXT = "tile kernel @k(%n: i32) {\n  %a = add %n, 1 : i32\n}\n"


def negate(kernel: Kernel, context: PassContext) -> None:
    kernel.body.ops.append(arith.Neg(kernel.body.ops[-1].result))


def break_it(kernel: Kernel, context: PassContext) -> None:
    kernel.body.ops.reverse()


def test_runs_in_order_and_takes_the_time() -> None:
    kernel, context = parse_kernel(TEXT), PassContext()
    run_passes(kernel, [("negate", negate), ("again", negate), ("negate", negate)], context)
    assert [op.mnemonic for op in kernel.body.ops][1:] == ["add", "neg", "neg", "neg"]
    assert set(context.timings) == {"negate", "again"}
    assert all(t > 0 for t in context.timings.values())


def test_switches() -> None:
    kernel = parse_kernel(TEXT)
    passes = [("negate", negate), ("again", negate)]
    run_passes(kernel, passes, PassContext(), switches={"again": False, "negate": True}, optional=["again"])
    assert [op.mnemonic for op in kernel.body.ops][1:] == ["add", "neg"]
    with pytest.raises(MinitileError, match=r"the pass 'negate' cannot be left out[^$]*switched: again"):
        run_passes(kernel, passes, PassContext(), switches={"negate": False}, optional=["again"])
    with pytest.raises(MinitileError, match="there is no pass 'other'"):
        run_passes(kernel, passes, PassContext(), switches={"other": False}, optional=["again"])


@pytest.mark.parametrize("by_environment", [False, True])
def test_verify_names_the_pass(by_environment: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [("negate", negate), ("break", break_it)]
    monkeypatch.setenv("MINITILE_VERIFY", "0")
    run_passes(parse_kernel(TEXT), passes, PassContext())
    if by_environment:
        monkeypatch.setenv("MINITILE_VERIFY", "1")
    with pytest.raises(IRError, match="after the pass break: %a is used before it is defined"):
        run_passes(parse_kernel(TEXT), passes, PassContext(), verify=not by_environment)


def test_dump_to_stderr(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MINITILE_DUMP", "other,negate")
    run_passes(parse_kernel(TEXT), [("first", negate), ("negate", negate)], PassContext())
    assert capsys.readouterr().err == (
        "// k after negate\ntile kernel @k(%n: i32) {\n"
        "  %a = add %n, 1 : i32\n  %0 = neg %a : i32\n  %1 = neg %0 : i32\n}\n\n"
    )


def test_dump_to_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINITILE_DUMP", "all")
    monkeypatch.setenv("MINITILE_DUMP_DIR", str(tmp_path / "dumps"))
    run_passes(parse_kernel(TEXT), [("first", negate), ("second", negate)], PassContext())
    files = sorted((tmp_path / "dumps").iterdir())
    assert [f.name for f in files] == ["k.00.first.mt", "k.01.second.mt"]
    assert [str(parse_kernel(f.read_text())).count("neg") for f in files] == [1, 2]


@pytest.fixture
def _passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitile.driver.pipeline.PASSES", {"negate": negate, "break": break_it})


def command(*words: str) -> int:
    parser = argparse.ArgumentParser()
    opt.add_arguments(parser)
    return opt.main(parser.parse_args(words))


@pytest.mark.usefixtures("_passes")
def test_opt_runs_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.mt"
    file.write_text(TEXT)
    assert command(str(file), "--pass", "negate", "--pass", "negate", "--verify", "--target", "sm_89") == 0
    assert capsys.readouterr().out == TEXT.replace("}", "  %0 = neg %a : i32\n  %1 = neg %0 : i32\n}")


@pytest.mark.usefixtures("_passes")
def test_opt_reads_the_header_and_stops_at_the_expectation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"// pass: negate\n{TEXT}// ----\nwhat is expected"))
    assert command("-") == 0
    assert capsys.readouterr().out == TEXT.replace("}", "  %0 = neg %a : i32\n}")


@pytest.mark.usefixtures("_passes")
def test_opt_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "k.mt"
    file.write_text(TEXT)
    assert command(str(file), "--pass", "nonsense") == 1
    assert "there is no pass 'nonsense'\n  hint: passes: negate, break" in capsys.readouterr().err
    assert command(str(file), "--pass", "negate", "--pass", "break", "--verify") == 1
    assert "after the pass break" in capsys.readouterr().err
    assert command(str(tmp_path / "absent.mt")) == 1
    assert "cannot read" in capsys.readouterr().err


def test_opt_as_a_function() -> None:
    assert str(opt.optimize(TEXT)) == TEXT
    assert opt.read_header("// target: sm_89\n\n// pass: a, b\nkernel // pass: c") == {
        "target": "sm_89",
        "pass": "a, b",
    }
    with pytest.raises(TargetError, match="sm_12"):
        opt.optimize(TEXT, target="sm_12")


def never(kernel: Kernel, context: PassContext) -> None:
    raise AssertionError("this pass is switched off")


def test_former_names_of_passes() -> None:
    from minitile.driver.pipeline import OPTIONAL, PASSES
    from minitile.transforms.manager import FORMER_NAMES

    assert set(FORMER_NAMES.values()) <= set(PASSES)
    assert not set(FORMER_NAMES) & set(PASSES)
    for name, current in FORMER_NAMES.items():
        assert opt.find_pass(name) is PASSES[current]
        if current in OPTIONAL:
            switches, context = {name: False}, PassContext()
            run_passes(parse_kernel(TEXT), [(current, never)], context, switches=switches, optional=OPTIONAL)
            assert not context.ran(current)
