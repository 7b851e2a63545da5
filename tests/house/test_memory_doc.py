"""docs/memory.md says what is so: its example gives what it shows, and each row of its table of removals is true."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

from minitile.driver.simulate import launch_of
from minitile.runtime.sim import run_ptx
from minitile.runtime.sim.mutate.ptx import removals
from minitile.tools.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
KINDS = r"`([a-z_]+)`(?: (RAW|WAR|WAW))?"


def outputs():
    """What the page says that its commands print, without the command's own line."""
    return [text.split("\n", 1)[1] for text in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)]


def test_the_example(tmp_path, capsys):
    (ptx,) = re.findall(r"```ptx\n(.*?)```", PAGE, re.DOTALL)
    found, redundant = outputs()
    file = tmp_path / "neighbour.ptx"
    file.write_text(ptx)
    arguments = [str(file), "--block", "64", "--args", "u32[64]=0"]
    assert main(["check", *arguments]) == 1
    assert capsys.readouterr().out == found
    lines = ptx.splitlines()
    file.write_text("\n".join([*lines[:11], "  bar.sync 0;", *lines[11:]]))
    assert main(["check", *arguments]) == 0
    capsys.readouterr()
    assert main(["check", "--redundant", *arguments]) == 0
    assert capsys.readouterr().err == redundant


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("happens_before", ROOT / "docs" / "happens_before.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_table_of_mutants(script):
    """The GEMM of the picture without each instruction, under two schedules."""
    import gemm

    a, b = (np.ones((rows, 32 * script.STEPS), ml_dtypes.bfloat16) for rows in (64, 16))
    c = np.zeros((64, 16), ml_dtypes.bfloat16)
    kernel = gemm.gemm_nt_bf16().compile(a, b, c, target="sm_90a", **script.SIZE)
    info = kernel.launch_info
    reports: dict[str, set[tuple[str, str]]] = {}
    waits = iter(("the producer's mbarrier.try_wait", "the consumers' mbarrier.try_wait"))
    for each in removals(kernel.asm["ptx"], info.entry):
        name = (
            next(waits) if "try_wait" in each.instruction else re.sub(r"^@\S+ |\.sync\.aligned", "", each.instruction)
        )
        if name.startswith("bar.sync") and name != "bar.sync 0":
            name = "bar.sync of the consumers"
        for schedule in ("lazy", "eager"):
            grid, given = launch_of(info, [a, b, c.copy()])
            options = {"dynamic_shared": info.dynamic_shared, "schedule": schedule}
            report = run_ptx(each.text, info.entry, grid, info.block, given, **options)
            first = report.findings[0]
            reports.setdefault(name, set()).add((first.kind, first.hazard or ""))
    rows = re.findall(r"^\| (.*?) \| (`.*?) \| [^|]+ \|$", PAGE.partition("| without |")[2], re.MULTILINE)
    assert len(rows) >= 15
    said = {what.replace("`", ""): set(re.findall(KINDS, kinds)) for what, kinds in rows}
    for name, found in reports.items():
        row = max((what for what in said if name.startswith(what)), key=len, default=None)
        assert row is not None, f"the page has no row for {name}"
        kinds = {kind for kind, _ in said[row]}
        assert {kind for kind, _ in found} <= kinds, (row, found)
        assert {each for each in found if each[0].startswith("missing")} <= said[row], (row, found)
    assert all(any(name.startswith(what) for name in reports) for what in said), "a row for what is not there"


def test_the_picture(script):
    """It is of these events, and shows the circle that a slot goes through."""
    events = script.build(script.record())
    drawn = (ROOT / "docs" / "happens_before.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert script.digest(events) in drawn, "run: PYTHONPATH=. python docs/happens_before.py"
    before = {}
    for event in events:
        before.setdefault(event.text, []).extend((earlier.text, kind) for earlier, kind in event.before)
        assert all(earlier.row < event.row for earlier, _ in event.before)
    assert ("bytes of step 0 in slot 0", "barrier") in before["wait full[0]"]
    assert ("product 0: reads slot 0", "group") in before["wgmma.wait_group 1"]
    assert ("wgmma.wait_group 1", "program") in before["arrive at empty[0]"]
    assert ("arrive at empty[0]", "barrier") in before["wait empty[0]"]
    assert len({(event.lane, event.row) for event in events}) == len(events)
