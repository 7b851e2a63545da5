"""benchmarks/workers.py: processes that compile end with the one that measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import workers

BUSY = """
import os, signal, time
import workers

pool = workers.pool(2)
print(len({job.result() for job in [pool.submit(abs, n) for n in range(2)]}), flush=True)
for _ in range(4):
    pool.submit(time.sleep, 60)
"""


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_workers_end_with_the_process_that_started_them(end):
    """They have its output open: what reads it would wait for them, and for 60 s."""
    command = [sys.executable, "-c", BUSY + end]
    found = subprocess.run(command, cwd=Path(workers.__file__).parent, stdout=subprocess.PIPE, timeout=30, check=False)
    assert found.stdout == b"2\n"
