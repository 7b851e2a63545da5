"""`minitile compile --html`: every stage is on the page, lines are linked, and the charts say what the IR says."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from functools import lru_cache
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import pytest

import minitile as mt
import minitile.language as T
from minitile.driver.jit import Spec
from minitile.driver.pipeline import compile_ir
from minitile.ir.core import Kernel
from minitile.ir.printer import print_kernel, print_lines
from minitile.target import parse_target
from minitile.tools.cli import main
from minitile.tools.cli_kernels import load_kernel
from minitile.tools.html.memory import lives_in
from minitile.tools.html.page import Page, differences, record
from minitile.tools.html.render import render
from minitile.tools.html.roles import Chart, role_chart

ROOT = Path(__file__).parents[2]
VOID = ("meta", "input", "br", "link", "img")
CASES = [("gemm", "sm_90a"), ("gemm", "sm_80"), ("gemm", "gfx950"), ("attention", "sm_90a")]
ASSEMBLY = {"sm_90a": ("ptx",), "sm_80": ("ptx",), "gfx950": ("llvm", "gcn")}
PRODUCT = {"ptx": r"wgmma\.mma_async|mma\.sync", "llvm": r"@llvm\.amdgcn\.mfma", "gcn": r"\bv_mfma"}


@lru_cache
def compiled(name: str, target: str) -> mt.CompiledKernel:
    kernel = example({"gemm": "gemm.py:gemm_nt_bf16", "attention": "attention.py:attention"}[name])
    sizes = [mt.spec((8192, 8192), "bfloat16")] * 3 if name == "gemm" else []
    return kernel.compile(*sizes, target=target)


def example(entry: str) -> mt.Kernel:
    """A kernel of examples/, without the traces that its loading leaves."""
    names, path = (entry.partition(".")[0], "support"), list(sys.path)
    before = {n: sys.modules.pop(n) for n in names if n in sys.modules}
    try:
        return load_kernel(str(ROOT / "examples" / entry))
    finally:
        sys.path[:] = path
        for n in names:
            sys.modules.pop(n, None)
        sys.modules.update(before)


@lru_cache
def page(name: str, target: str) -> Page:
    return record(compiled(name, target))


@lru_cache
def parsed(name: str, target: str) -> Reader:
    return read(render(page(name, target)))


class Reader(HTMLParser):
    """A page as a tree's worth of facts. Fails where an element is not closed, or closed where it is not open."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.lines: dict[str, list[tuple[str | None, str]]] = {}  # of each pane: (data-line, text)
        self.scripts: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        assert len(found) == len(attrs), attrs
        self.tags.append(tag)
        self.ids += [v for k, v in attrs if k == "id" and v]
        self.links += [v for k, v in attrs if k in ("src", "href", "action", "data") and v]
        if tag not in VOID:
            self.open.append((tag, found))
            if tag == "span" and self.pane():
                self.lines.setdefault(self.pane(), []).append((found.get("data-line"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1][0] == tag, f"</{tag}> where {self.open[-1]} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] == "span" and self.pane():
            at, text = self.lines[self.pane()][-1]
            self.lines[self.pane()][-1] = at, text + data
        if self.open and self.open[-1][0] == "script":
            self.scripts[self.open[-1][1].get("id") or "code"] = data

    def pane(self) -> str:
        return next((a["id"] or "" for _, a in self.open if a.get("class") == "pane" and "id" in a), "")


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open
    return reader


@pytest.mark.parametrize(("name", "target"), CASES)
def test_every_stage_is_there_whole(name, target):
    reader, asm = parsed(name, target), compiled(name, target).asm
    assert list(reader.lines) == ["source", "traced_ir", "tile_ir", "thread_ir", *ASSEMBLY[target]]
    for stage in list(reader.lines)[1:]:
        assert [text for _, text in reader.lines[stage]] == asm[stage].splitlines(), stage
    source = Path(compiled(name, target).case.kernel.function.__code__.co_filename).read_text()
    assert "\n".join(text for _, text in reader.lines["source"]) in source


@pytest.mark.parametrize(("name", "target"), CASES)
def test_links_lead_to_lines_of_the_source(name, target):
    reader = parsed(name, target)
    known = {at for at, _ in reader.lines["source"] if at is not None}
    for stage in list(reader.lines)[1:]:
        linked = [at for at, _ in reader.lines[stage] if at is not None]
        assert linked, stage
        assert set(linked) <= known, stage
    assert set(re.findall(r'data-line="(\d+)"', render(page(name, target)))) <= known
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link for link in reader.links if link.startswith("#")} <= {f"#{i}" for i in reader.ids}
    assert all(link.startswith("#") for link in reader.links)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_product_is_linked_with_its_instructions(name, target):
    reader = parsed(name, target)
    gemms = {at for at, text in reader.lines["source"] if "T.gemm(" in text}
    for stage in ("traced_ir", "tile_ir", *ASSEMBLY[target]):
        pattern = PRODUCT.get(stage, r"\b(async_)?gemm(_into)? %")
        from_them = {at for at, text in reader.lines[stage] if re.search(pattern, text) and "declare" not in text}
        assert from_them == gemms, stage


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_texts_of_the_passes(name, target):
    """From the traced IR on, each change applied gives the next text, but for numbers; the last is the thread IR."""
    reader = parsed(name, target)
    texts = json.loads(zlib.decompress(base64.b64decode(reader.scripts["snapshots"])))
    before = texts["traced"][1]
    for name_, after, places, changes in texts["passes"]:
        if after is None:
            assert changes == []
            continue
        assert len(after) == len(places)
        kept: list[str] = []
        at = 0
        for _, i1, i2, j1, j2 in changes:
            kept += before[at:i1] + after[j1:j2]
            at = i2
        kept += before[at:]
        assert [re.sub(r"\d+", "", line) for line in kept] == [re.sub(r"\d+", "", line) for line in after], name_
        before = after
    assert before == [text for _, text in reader.lines["thread_ir"]]
    assert [p[0] for p in texts["passes"]].count("simplify") > 2
    assert reader.tags.count("li") == len(texts["passes"])


def test_changes_leave_out_numbers_alone():
    before = ["%0 = add %x, 1 : i32", "%1 = mul %0, %slot_1 : i32", "yield %1"]
    after = ["%0 = mul %x, %slot_2 : i32", "yield %0"]
    assert differences(before, after) == [("replace", 0, 2, 0, 1)]
    assert differences(after, ["%7 = mul %x, %slot : i32", "yield %7"]) == [("replace", 0, 1, 0, 1)]
    assert differences(after, ["%7 = mul %x, %slot_9 : i32", "yield %7"]) == []


@pytest.mark.parametrize(("name", "target"), CASES)
def test_pages_are_small_and_whole_by_themselves(name, target):
    text = render(page(name, target))
    assert len(text.encode()) < 2_000_000
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest", text.replace(str(ROOT), ""))


def test_roles_of_a_specialised_gemm():
    chart = page("gemm", "sm_90a").roles
    assert chart is not None
    assert [title.split()[0] for title in chart.lanes] == ["producer:", "consumers:"]
    arrows = {(a.source.text.split()[0], a.target.text.split()[0], a.by, a.turns) for a in chart.arrows}
    assert ("tma_copy", "consumer_wait", "A_shared+B_shared full", 0) in arrows
    assert ("consumer_release", "producer_acquire", "A_shared+B_shared empty", 0) in arrows
    assert [a.source.text for a in chart.arrows if a.by.endswith("full")] == ["tma_copy B → B_shared[slot]"]  # the last
    assert {(a.source.lane, a.target.lane) for a in chart.arrows if a.by.endswith("full")} == {(0, 1)}
    assert {(a.source.lane, a.target.lane) for a in chart.arrows if a.by.endswith("empty")} == {(1, 0)}
    assert ("async_gemm", "wait", "token", 1) in arrows  # its slot is released an iteration later
    assert [name for name, _ in chart.pipelines] == ["A_shared+B_shared"]


def test_stages_of_a_software_pipeline():
    """Three stages on sm_80: in front of the loop two copies are issued, in it one for the next iteration but one."""
    chart = page("gemm", "sm_80").roles
    assert chart is not None
    assert chart.lanes == ["all 128 threads"]
    loop = next(row for row in chart.rows if row.text.startswith("for k"))
    (wait,) = [row for row in chart.rows if row.kind == "waits" and loop.y < row.y <= loop.end]
    copies = sorted((a.turns, a.source.y > loop.y) for a in chart.arrows if a.target is wait)
    assert copies == [(0, False), (1, False), (2, True)]


def test_roles_of_attention():
    chart = page("attention", "sm_90a").roles
    assert chart is not None
    assert [name for name, _ in chart.pipelines] == ["Q_shared", "K_shared", "V_shared"]
    loops = [row for row in chart.rows if row.kind == "region" and row.text.startswith("for k")]
    assert {row.lane for row in loops} == {0, 1}
    assert "order barrier, turn" in {a.by for a in chart.arrows}


@mt.kernel
def explicit(
    A: T.Tensor(("M", "K"), T.float16), B: T.Tensor(("K", "N"), T.float16), C: T.Tensor(("M", "N"), T.float16), block=64
):
    with T.Kernel(T.ceildiv(C.shape[1], block), T.ceildiv(C.shape[0], block), threads=256) as (bx, by):
        A_shared = T.alloc_shared((block, block), A.dtype)
        B_shared = T.alloc_shared((block, block), A.dtype)
        C_local = T.alloc_fragment((block, block), T.float32)
        bars = T.alloc_barrier([128, 128])
        with T.ws(0):
            T.clear(C_local)
        for k in range(T.ceildiv(A.shape[1], block)):
            with T.ws(1):
                T.barrier_wait(bars[1], (k + 1) % 2)
                T.tma_copy(A[by * block, k * block], A_shared, barrier=bars[0])
                T.tma_copy(B[k * block, bx * block], B_shared, barrier=bars[0])
                T.barrier_arrive(bars[0])
            with T.ws(0):
                T.barrier_wait(bars[0], k % 2)
                T.gemm(A_shared, B_shared, C_local)
                T.barrier_arrive(bars[1])
        with T.ws(0):
            T.copy(C_local, C[by * block, bx * block])


def charted(kernel: mt.Kernel, *sizes: Spec, **constants: int) -> Chart:
    charts: list[Chart] = []

    def after(name: str, ir: Kernel, _: float) -> None:
        if name == "tile_ir":
            charts.append(role_chart(ir, lambda loc: None))

    compile_ir(kernel.trace(*sizes, **constants), parse_target("sm_90a"), texts=True, after=after)
    (chart,) = charts
    return chart


def test_explicit_roles():
    chart = charted(explicit, *[mt.spec((1024, 1024), "float16")] * 3)
    assert chart.lanes == ["warpgroup 0", "warpgroup 1"]
    barriers = [(a.source.text, a.source.lane, a.target.text, a.target.lane) for a in chart.arrows if a.by != "token"]
    assert barriers == [
        ("barrier_arrive bars", 1, "barrier_wait bars", 0),
        ("barrier_arrive bars", 0, "barrier_wait bars", 1),
    ]


def test_roles_of_ping_pong():
    settings = {"block_M": 64, "block_N": 64, "block_K": 32, "num_stages": 3, "threads": 256, "teams": 2}
    kernel = example("gemm_persistent.py:gemm_persistent")
    chart = charted(kernel, *[mt.spec((1024, 1024), "bfloat16")] * 3, **settings)
    assert [title.split()[0] for title in chart.lanes] == ["producer:", "warpgroup", "warpgroup"]
    handed = {(a.source.lane, a.target.lane) for a in chart.arrows if a.by.startswith("order barrier")}
    assert handed == {(1, 2), (2, 1)}
    assert {(a.source.lane, a.target.lane) for a in chart.arrows if a.by.endswith("full")} == {(0, 1), (0, 2)}


@pytest.mark.parametrize(("name", "target"), CASES)
def test_rows_of_a_lane_stand_apart(name, target):
    chart = page(name, target).roles
    assert chart is not None
    places = [(row.lane, row.y) for row in chart.rows]
    assert len(set(places)) == len(places)
    assert all(row.y < chart.height for row in chart.rows)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_the_shared_memory_map(name, target):
    """Buffers with the same bytes are not needed at the same time, and together they have what the launch says."""
    memory = page(name, target).memory
    assert memory is not None
    assert memory.total == compiled(name, target).launch_info.dynamic_shared == max(b.end for b in memory.buffers)
    assert len({b.name for b in memory.buffers}) == len(memory.buffers)
    for one, other in combinations(memory.buffers, 2):
        shared = one.offset < other.end and other.offset < one.end
        assert shared == (other.name in one.shares) == (one.name in other.shares)
        assert not shared or one.last < other.first or other.last < one.first
    if target == "sm_80":
        assert next(b for b in memory.buffers if b.name == "staged").shares == ["A_shared"]


def test_looking_at_lives_changes_nothing():
    kernel = compiled("gemm", "sm_80").case.trace()
    before = print_kernel(kernel)
    assert lives_in(kernel).operations == sum(1 for _ in kernel.walk())
    assert print_kernel(kernel) == before


def test_lines_and_their_operations():
    kernel = compiled("gemm", "sm_80").case.trace()
    lines = print_lines(kernel)
    assert "\n".join(text for text, _ in lines) + "\n" == print_kernel(kernel)
    assert [op for _, op in lines[:1] + lines[-1:]] == [None, None]
    assert all(op.mnemonic in text or text.strip().startswith("}") for text, op in lines if op is not None)


KERNELS = '''
import minitile as mt
import minitile.language as T


def plus(x):
    return x + 1.0  # </pre></script><script>alert("helper")</script>


@mt.kernel
def hostile(A: T.Tensor(("N",), T.float32), B: T.Tensor(("N",), T.float32)):
    """</script><script>alert('docstring')</script>"""
    with T.Kernel(1, threads=32):
        T.print(1, msg="</script><script>alert(1)</script><!-- & &amp; $title ${x}")
        for i in T.Parallel(32):
            B[i] = plus(A[i])  # <b onmouseover='x'>
'''


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    folder = tmp_path / "<i>&amp;'"
    folder.mkdir()
    file = folder / "hostile_kernels.py"
    file.write_text(KERNELS)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, file.stem, None)
    return file


def test_everything_is_escaped(hostile):
    found = load_kernel(f"{hostile}:hostile").compile(target="sm_80")
    reader = read(render(record(found)))
    plain = parsed("gemm", "sm_80")
    for tag in ("html", "script", "style", "section", "pre"):
        assert reader.tags.count(tag) == plain.tags.count(tag), tag
    assert reader.tags.count("b") == 1  # the heading of the helper's file
    source = [text for _, text in reader.lines["source"]]
    assert set(source) <= set(KERNELS.splitlines())
    assert [text for _, text in reader.lines["ptx"]] == found.asm["ptx"].splitlines()


def test_what_a_helper_does_is_its_callers_too(hostile):
    found = record(load_kernel(f"{hostile}:hostile").compile(target="sm_80"))
    lines = KERNELS.splitlines()
    numbers = {lines[line - 1].split()[0]: n for n, (_, line) in enumerate(found.places)}
    assert found.callers == {numbers["return"]: [numbers["B[i]"]]}
    assert [len(part.lines) for part in found.source] == [7, 2]
    ptx = next(stage for stage in found.stages if stage.name == "ptx")
    assert {at for text, at in zip(ptx.lines, ptx.places, strict=True) if "add.f32" in text} == {numbers["return"]}


def test_the_command_writes_it(hostile, tmp_path, capsys):
    out = tmp_path / "folder" / "page.html"
    assert main(["compile", f"{hostile}:hostile", "--target", "sm_80", "--html", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert read(out.read_text(encoding="utf-8")).lines["ptx"]
    assert main(["compile", f"{hostile}:hostile", "--target", "sm_80", "--html", str(tmp_path)]) == 1
    assert "cannot write" in capsys.readouterr().err
