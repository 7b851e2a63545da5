"""Which cases of a sweep are quick: each value of each parameter, and more where a share of the cases has room."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps import FEW, LONG, SHARE, chosen

ROOT = Path(__file__).parents[2]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.sweeps import thin_out
def pytest_collection_modifyitems(items):
    thin_out(items)
"""
TESTS = """
import pytest
@pytest.mark.parametrize("a", ["x", "y", "z"])
@pytest.mark.parametrize("b", range(6))
def test_product(a, b):
    pass
@pytest.mark.parametrize("a", range(20))
def test_list(a):
    pass
@pytest.mark.parametrize("a", [0, 1, 2])
def test_short(a):
    pass
@pytest.mark.few_cases
@pytest.mark.parametrize("a", range(9))
def test_few(a):
    pass
@pytest.mark.every_case
@pytest.mark.parametrize("a", range(3))
@pytest.mark.parametrize("b", range(3))
def test_marked(a, b):
    pass
def test_alone():
    pass
"""


def product(*sizes: int) -> list[tuple[str, tuple[int, ...]]]:
    return [("-".join(map(str, values)), values) for values in itertools.product(*map(range, sizes))]


@pytest.mark.parametrize("sizes", [(4, 9, 4), (2, 3), (7, 5), (2, 2, 2, 2, 2), (13,), (1, 6)], ids=str)
def test_each_value_occurs_and_no_more_than_a_share(sizes: tuple[int, ...]) -> None:
    cases = product(*sizes)
    picked = chosen(cases)
    assert picked == sorted(set(picked))
    assert {0, len(cases) - 1} <= set(picked)
    assert len(picked) <= max(-(-len(cases) // SHARE), max(sizes) + 2)
    for axis, size in enumerate(sizes):
        assert {cases[number][1][axis] for number in picked} == set(range(size))


@pytest.mark.parametrize("most", [2, 3, 5])
def test_no_more_than_most(most: int) -> None:
    picked = chosen(product(7, 5), most=most)
    assert len(picked) == most
    assert {0, 34} <= set(picked)


def test_most_pairs_occur() -> None:
    """Of 4 x 9 x 4 cases 48 are chosen: they have nearly all of the 88 pairs, where any 48 in a row have 56 at most."""
    cases = product(4, 9, 4)
    picked = chosen(cases, 3)
    pairs = {pair for number in picked for pair in itertools.combinations(enumerate(cases[number][1]), 2)}
    assert len(picked) == 48
    assert len(pairs) >= 85


def test_a_list_of_cases_that_share_no_value_is_whole() -> None:
    assert chosen([(str(n), (n, -n)) for n in range(50)]) == list(range(50))
    assert chosen([]) == []


def test_the_others_are_slow(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow\n  every_case\n  few_cases\n")
    (tmp_path / "test_them.py").write_text(TESTS)

    def collected(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", *options]
        output = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
        return [line for line in output.splitlines() if "::" in line]

    quick, slow = collected("-m", "not slow"), collected("-m", "slow")
    assert len(quick) + len(slow) == 18 + 20 + 3 + 9 + 9 + 1
    assert {each.partition("[")[0].partition("::")[2] for each in slow} == {"test_product", "test_few"}
    assert sum("test_few" in each for each in slow) == 9 - FEW
    assert 6 <= sum("test_product" in each for each in quick) <= 8
    # Asked for by its name, every case runs.
    assert LONG > 1
    assert len(collected("-m", "not slow", slow[0])) == 1
