"""benchmarks/gpu_check.sh without a GPU: its parts are the whole, and no job is one that the target has no form of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
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


# What stands in for the GPU's programs: it says what it was called with; some jobs fail, or take long where told to.
TOOL = """#!/bin/bash
echo "$@ $MINITILE_TARGET" >>"$CALLS"
case "$*" in
*planted.py*) echo "========= SUMMARY: 1 error"; exit 9 ;;
*softmax*) exit 9 ;;
*rms_norm*) sleep "${SLOW:-0}" ;;
esac
"""


@pytest.fixture
def checked(tmp_path):
    """Runs the script with stand-ins; its exit code, its lines about jobs, and the calls of the sanitizer."""
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
    calls.touch()
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHON": str(tools / "python"), "CALLS": str(calls)}

    def run(*args, **more):
        found = call(tmp_path, *args, str(tmp_path / "logs"), **{**env, **more})
        lines = [line for line in found.stdout.splitlines() if line.startswith(("PASS", "FAIL"))]
        return found.returncode, lines, calls.read_text().splitlines()

    return run


def test_what_it_runs(tmp_path, checked):
    steps = {"STEPS": "tests planted examples"}
    status, lines, calls = checked("1/4", **steps)
    jobs = plan(tmp_path, "1/4", **steps)
    wrong = {f"{job.split()[2]}-{job.split()[3]}-{job.split()[1]}" for job in jobs if "softmax" in job}
    assert {line.split()[1].rstrip(":") for line in lines if line.startswith("FAIL")} == wrong
    assert all("exit code 9" in line for line in lines if line.startswith("FAIL"))
    assert wrong
    assert status == 1
    assert len(lines) == len(jobs) + 1, "and the tests"
    assert len(calls) == len(jobs)


@pytest.mark.slow
def test_it_ends_in_time(checked):
    """What takes too long is stopped, what is left is not begun; both are failures that say so."""
    start = time.monotonic()
    status, lines, calls = checked("1/1", STEPS="examples", SLOW="1000", LIMIT="18", JOBS="2")
    assert time.monotonic() - start < 60
    assert status == 1
    assert any("not run, no time was left" in line for line in lines)
    assert len(calls) < len(lines)


@pytest.mark.parametrize("name", ["gemm_cluster_k", "gemm_fp8"])
def test_an_example_without_a_form(tmp_path, name):
    """It says so, and is no failure."""
    env = {**os.environ, "MINITILE_TARGET": "sm_80", "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")], capture_output=True, text=True, env=env, check=False
    )
    assert (found.returncode, found.stdout[:21]) == (0, "no form for sm_80: it"), found.stderr
