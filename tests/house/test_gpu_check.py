"""benchmarks/gpu_check.sh without a GPU: its parts are the whole, and no job is one that the target has no form of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu_check.sh"
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def call(tmp_path, *args, **env):
    path = {"PATH": os.environ["PATH"], "MINITILE_CACHE_DIR": str(tmp_path / "cache"), **env}
    return subprocess.run(["bash", str(SCRIPT), *args], capture_output=True, text=True, env=path, check=False)


def plan(tmp_path, *args, **env):
    found = call(tmp_path, *args, str(tmp_path / "logs"), PLAN="1", **env)
    assert found.returncode == 0, found.stderr
    tests, *jobs = found.stdout.splitlines()
    assert tests.startswith("tests --shard=")
    return jobs


def test_the_parts_are_the_whole(tmp_path):
    whole = plan(tmp_path)
    parts = [plan(tmp_path, f"{n}/3") for n in (1, 2, 3)]
    assert sorted(job for part in parts for job in part) == sorted(whole)
    assert len(whole) == len(set(whole)) > 150
    for part in parts:
        assert abs(len(part) - len(whole) / 3) < 1
        for kind in (
            "kernels racecheck",
            "example racecheck",
            "example memcheck",
        ):  # each has its share of what is slow
            mine, all_ = (sum(job.startswith(kind) for job in some) for some in (part, whole))
            assert abs(mine - all_ / 3) <= 1


@pytest.mark.parametrize("part", ["0/3", "4/3", "1/0"])
def test_a_part_that_is_none(tmp_path, part):
    found = call(tmp_path, part, PLAN="1")
    assert found.returncode == 2
    assert "write I/N" in found.stderr


# What stands in for the GPU's programs: it says what it was called with, and some jobs fail or take long.
TOOL = """#!/bin/bash
echo "$@ $MINITILE_TARGET" >>"$CALLS"
case "$*" in
*planted.py*) echo "========= SUMMARY: 1 error"; exit 9 ;;
*softmax*) exit 9 ;;
*rms_norm*) sleep 100 ;;
esac
"""


def test_what_it_runs(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "compute-sanitizer": TOOL,
        "nvidia-smi": "#!/bin/bash\necho a GPU",
        "python": "#!/bin/bash\necho 3 passed",
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    calls = tmp_path / "calls"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHON": str(tools / "python"), "CALLS": str(calls)}
    steps = {"STEPS": "tests planted examples"}
    found = call(tmp_path, str(tmp_path / "logs"), **env, **steps, LIMIT="20", JOBS="64")
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert "PASS tests" in "".join(lines)
    jobs = plan(tmp_path, **steps)
    wrong = {f"{job.split()[2]}-{job.split()[3]}-{job.split()[1]}" for job in jobs if "softmax" in job or "rms" in job}
    assert {line.split()[1].rstrip(":") for line in lines if line.startswith("FAIL")} == wrong
    assert any("still running" in line for line in lines), found.stdout
    assert any("exit code 9" in line for line in lines)
    assert sum(line.startswith(("PASS", "FAIL")) for line in lines) == len(jobs) + 1
    assert len(calls.read_text().splitlines()) == len(jobs)
    assert lines[-1].startswith("something failed")


@pytest.mark.parametrize("name", ["gemm_cluster_k", "gemm_fp8"])
def test_an_example_without_a_form(tmp_path, name):
    """It says so, and is no failure."""
    env = {**os.environ, "MINITILE_TARGET": "sm_80", "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")], capture_output=True, text=True, env=env, check=False
    )
    assert (found.returncode, found.stdout[:21]) == (0, "no form for sm_80: it"), found.stderr
