"""The benchmarks' frame without a GPU: who is chosen, who is left out, what is written; launches are stand-ins."""

from __future__ import annotations

import importlib
import json
import math
import re

import numpy as np
import pytest


@pytest.fixture
def contest():
    return importlib.import_module("contest")


@pytest.fixture
def report():
    return importlib.import_module("report")


@pytest.fixture
def handwritten():
    return importlib.import_module("handwritten")


class Tensor(np.ndarray):
    """An array with the one method of torch's that is called."""

    def fill_(self, value):
        self.fill(value)


class Field:
    """A benchmark case: the tensor that launches write, and milliseconds of each entry by name."""

    def __init__(self, contest, monkeypatch, speeds, records=True):
        self.contest, self.speeds, self.records = contest, speeds, records
        self.result = np.full(4, math.nan).view(Tensor)
        self.rounds, self.ran = [], []
        monkeypatch.setattr(contest.timing, "time_interleaved", self.time_interleaved)
        monkeypatch.setattr(contest, "record", self.record)

    def entry(self, contender, config="", value=1.0):
        def launch():
            self.ran.append(f"{contender} {config}".rstrip())
            self.result[:] = value
            return self.result

        return self.contest.Entry(contender, config, launch, {"registers": 90})

    def time_interleaved(self, launches, rounds, repeat):
        self.rounds.append((rounds, list(launches)))
        for launch in launches.values():
            launch()
        return {name: [self.speeds[name] * (1 + 0.01 * i) for i in range(rounds)] for name in launches}

    def record(self, launch, count):
        if not self.records:
            raise RuntimeError("no graphs here")

        def replay():
            for _ in range(count):
                launch()

        return replay, self.result

    def verify(self, result):
        error = float(np.abs(result - 1).max())
        if not error <= 0.1:
            raise self.contest.Wrong(f"error {error}")
        return error

    def hold(self, entries, flops=6e9):
        return self.contest.hold(
            "a case", flops, entries, self.verify, "base", lambda: self.result.fill(math.nan), rounds=9
        )


def test_the_fastest_entry_of_each_meets_the_others(contest, monkeypatch):
    field = Field(contest, monkeypatch, {"minitile a": 3.0, "minitile b": 2.0, "base": 4.0})
    count = contest.batch_size(6e9, 5.0)
    result = field.hold([field.entry("minitile", "a"), field.entry("minitile", "b", 1.05), field.entry("base")])
    assert [(row["contender"], row["config"]) for row in result.rows] == [("minitile", "b"), ("base", "")]
    ours = result.rows[0]
    assert ours["ratio"] == pytest.approx(2.0)
    assert ours["of"] == {"base": pytest.approx(2.0)}
    assert ours["error"] == pytest.approx(0.05)
    assert ours["ms"] == pytest.approx(2.08 / count)  # the median of nine rounds, of one launch
    assert ours["tflops"] == pytest.approx(6e9 / (2.08 / count) * 1e-9)
    assert ours["note"] == ""
    assert field.rounds == [
        (contest.CHOOSING_ROUNDS, ["minitile a", "minitile b", "base"]),
        (9, ["minitile b", "base"]),
    ]
    assert [row["failure"] for row in result.tried] == ["", "", ""]
    assert result.tried[0]["tflops"] == pytest.approx(6e9 / (3.075 / count) * 1e-9)


def test_what_is_wrong_or_broken_is_not_timed(contest, monkeypatch):
    field = Field(contest, monkeypatch, {"minitile good": 2.0, "base": 4.0})

    def breaks():
        raise RuntimeError("out of resources\nand more")

    entries = [
        field.entry("minitile", "wrong", 3.0),
        field.entry("minitile", "NaN", math.nan),
        contest.Entry("minitile", "breaks", breaks),
        contest.Entry("peer", "", None, failure="not installed"),
        contest.Entry("idle", "", lambda: field.result),  # writes nothing: what it leaves is NaN
        field.entry("minitile", "good"),
        field.entry("base"),
    ]
    result = field.hold(entries)
    assert [row["contender"] for row in result.rows] == ["minitile", "base"]
    assert [row["failure"] for row in result.tried] == [
        "Wrong: error 2.0",
        "Wrong: error nan",
        "RuntimeError: out of resources",
        "not installed",
        "Wrong: error nan",
        "",
        "",
    ]


def test_a_crash_ends_the_run(contest, monkeypatch):
    """After an access outside of any memory the GPU refuses everything: the next entries are not to blame."""
    field = Field(contest, monkeypatch, {})

    def refuse():
        if "minitile bad" in field.ran:
            raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(contest, "synchronize", refuse)
    monkeypatch.setattr(field, "verify", lambda result: refuse() or 0.0)
    with pytest.raises(contest.Crashed, match="minitile bad: RuntimeError: an illegal memory access"):
        field.hold([field.entry("base"), field.entry("minitile", "bad"), field.entry("minitile", "good")])
    assert field.ran == ["base", "minitile bad"]
    with pytest.raises(contest.Crashed):
        contest.gather({"peer": lambda: contest.each("peer", [0], lambda config: 1 // config)})


def test_without_graphs_the_launches_are_made_one_by_one(contest, monkeypatch):
    field = Field(contest, monkeypatch, {"minitile": 2.0}, records=False)
    result = field.hold([field.entry("minitile")], flops=600e12)
    assert result.rows[0]["note"] == "launched one by one (RuntimeError: no graphs here)"
    assert result.rows[0]["ratio"] is None
    least = contest.LAUNCHES[0]
    assert result.rows[0]["launches"] == least
    assert len(field.ran) == 1 + least + least  # once to check, then a batch in each of the two sets of rounds


def test_a_graph_that_records_nothing_is_noticed(contest, monkeypatch):
    field = Field(contest, monkeypatch, {"minitile": 2.0})
    monkeypatch.setattr(contest, "record", lambda launch, count: (lambda: None, field.result))
    result = field.hold([field.entry("minitile")])
    assert "Wrong: error nan" in result.rows[0]["note"]


def test_nobody_left(contest, monkeypatch):
    field = Field(contest, monkeypatch, {})
    result = field.hold([contest.Entry("peer", "", None, failure="not installed")])
    assert result.rows == []
    assert field.rounds == []


def test_gather_goes_on(contest):
    def missing():
        raise contest.Missing("not installed")
        yield

    def breaks():
        yield contest.Entry("half", "1", None)
        raise ValueError("then this")

    entries = contest.gather({"peer": missing, "half": breaks, "all": lambda: [contest.Entry("all", "", None)]})
    assert [(entry.contender, entry.failure) for entry in entries] == [
        ("peer", "not installed"),
        ("half", ""),
        ("half", "ValueError: then this"),
        ("all", ""),
    ]


def test_each_says_why(contest):
    def build(config):
        return contest.Entry("peer", str(10 // config), None)

    assert [(e.config, e.failure[:17]) for e in contest.each("peer", (5, 0, 2), build)] == [
        ("2", ""),
        ("0", "ZeroDivisionError"),
        ("5", ""),
    ]


def test_batch_sizes(contest):
    assert contest.batch_size(2 * 8192.0**3, 5.0) == 3
    assert contest.batch_size(2 * 2048.0**3, 5.0) == min(contest.LAUNCHES[1], round(3e12 / (2 * 2048**3)))
    assert contest.batch_size(1.0, 5.0) == contest.LAUNCHES[1]


def page(report, contest, monkeypatch):
    field = Field(contest, monkeypatch, {"minitile a": 2.0, "minitile b": 1.0, "base": 4.0})
    entries = [
        field.entry("minitile", "a"),
        field.entry("minitile", "b"),
        field.entry("base"),
        contest.Entry("peer", "x", None, failure="no GPU"),
    ]
    entries[0].compile_seconds, entries[0].compile_stages = 0.25, "trace 5 ms"
    made = report.Report("A title", "base", {"gpu": "none"})
    made.compiled(entries)
    made.compiled(entries)
    made.add("a case", field.hold(entries))
    return made


def test_the_page(report, contest, monkeypatch):
    text = page(report, contest, monkeypatch).markdown()
    assert text.startswith("# A title\n\n- gpu: none\n")
    assert "| case | TFLOP/s | of base |\n" in text
    assert "| 4.000 |" in text
    assert re.search(r"^- a case, minitile: b: \d+; a: \d+$", text, re.MULTILINE)
    assert text.count("| minitile | a | 0.25 | trace 5 ms |") == 1
    assert "- peer x, a case: no GPU" in text


def test_results_are_written_and_read(report, contest, monkeypatch, tmp_path):
    made = page(report, contest, monkeypatch)
    made.write(str(tmp_path / "result"), plot=False)
    assert (tmp_path / "result.md").read_text(encoding="utf-8") == made.markdown()
    assert json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))["rows"] == made.rows
    again = report.Report.read(str(tmp_path / "result.json"))
    assert again == made
    said = report.draw_file(str(tmp_path / "result.json"))
    drawn = importlib.util.find_spec("matplotlib") is not None
    assert said.startswith("drew" if drawn else "no plot: matplotlib is not installed")
    assert (tmp_path / "result.svg").exists() == drawn


def described(**more):
    common = {"entry": "gemm", "block": [384, 1, 1], "dynamic_shared_bytes": 1024, "G": 12}
    return {**common, "cfg": {"BM": 128, "BN": 192, "causal": 0}, **more}


@pytest.mark.parametrize("transposed", [True, False])
def test_hand_written_gemm_launch(handwritten, transposed):
    from minitile.runtime.launch_info import compile_exprs, slots_of

    info = handwritten.gemm_launch(described(), transposed, 12, processors=132)
    slots = slots_of(info.args)
    values = tuple({"M": 300, "N": 400, "K": 136}.get(name, 0) for _, name in slots)
    sources = [p.source for p in info.params[3:]]
    assert compile_exprs(sources, slots)(values) == (3, 3, 3, 12)
    assert compile_exprs(info.grid, slots)(values) == (9, 1, 1)
    b = info.params[1]
    assert compile_exprs([*b.dims, *b.strides], slots)(values) == ((400, 136, 136) if transposed else (136, 400, 400))
    assert b.box == ((192, 64) if transposed else (64, 64))


def test_hand_written_attention_launch(handwritten):
    from minitile.runtime.launch_info import compile_exprs, slots_of

    info = handwritten.attention_launch(described(entry="attn"), processors=132)
    slots = slots_of(info.args)
    values = tuple({"B": 2, "H": 8, "S": 300}.get(name, 0) for _, name in slots)
    q = info.params[0]
    assert compile_exprs([*q.dims, *q.strides], slots)(values) == (16, 2, 300, 64, 300 * 128, 64, 128)
    assert compile_exprs([p.source for p in info.params[4:9]], slots)(values) == (3, 3, 1, 48, 300)
    assert compile_exprs(info.grid, slots)(values) == (48, 1, 1)
