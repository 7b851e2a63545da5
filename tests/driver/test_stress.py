"""A little of each stress command; and that they notice what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("llvmlite")
ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are looked for in /proc"),
]


def stress(what, count, state, **changes):
    command = [sys.executable, "-m", "tests.stress", what, "--count", str(count), "--seed", "7", "--state", str(state)]
    environment = {**os.environ, **changes}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=1800)


@pytest.mark.parametrize(("what", "count"), [("results", 1000), ("interrupts", 12)])
def test_nothing_is_wrong(what, count, tmp_path):
    done = stress(what, count, tmp_path / "state.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing was wrong" in done.stdout
    found = json.loads((tmp_path / "state.json").read_text())
    assert found["done"] >= count
    again = stress(what, count, tmp_path / "state.json")
    assert json.loads((tmp_path / "state.json").read_text())["lives"] == found["lives"], "it was done already"
    assert again.returncode == 0


LIAR = """
from minitile.driver import cache
found = cache._parts

def unpack(data, key):
    parts = found(data)
    meta = parts and cache._json(parts[1])
    return cache.Entry(meta, parts[2]) if parts and key.kind.fits(meta, parts[2]) else None

cache._unpack = unpack
from pathlib import Path
from tests.stress import disturbed
disturbed.main(Path({folder!r}), 5)
"""


def test_a_cache_that_does_not_look_at_keys_is_noticed(tmp_path):
    """As it was once: whatever is whole, and of the kind, is taken."""
    (tmp_path / "disk").mkdir()
    env = {**os.environ, "PYTHONPATH": str(ROOT), "MINITILE_CACHE_DIR": str(tmp_path / "cache"), "MINITILE_CACHE": "1"}
    write = (
        f"from pathlib import Path; from tests.stress import texts; texts.write(Path({str(tmp_path)!r}, 'texts.json'))"
    )
    subprocess.run([sys.executable, "-c", write], cwd=ROOT, env={**env, "MINITILE_CACHE": "0"}, check=True)
    code = LIAR.format(folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 1, done.stderr
    assert '"wrong"' in done.stdout
