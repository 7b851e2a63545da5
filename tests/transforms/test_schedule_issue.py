"""What a turn takes to issue, against counts by hand: rates of sm_90a, 2048 products a cycle, four schedulers."""

from __future__ import annotations

import pytest

from minitile.backends.registry import backend_of
from minitile.ir.ops import control
from minitile.ir.parser import parse_kernel
from minitile.target import parse_target
from minitile.transforms.schedule.issue import Issued, issued, loops_of

TARGET = parse_target("sm_90a")
WORK = backend_of(TARGET).rules(TARGET).work
WGMMA = "{dtypes = (bf16, bf16), into = f32, n = 128, k = 16, a_offsets = (0,), b_offsets = (0,)}"  # 64 cycles
EX2 = '{text = "ex2.approx.ftz.f32", dtype = f32}'


def turn(*body: str, groups: int = 1, carried: str = "", yielded: str = "") -> Issued:
    lines = "\n".join(body)
    kernel = parse_kernel(
        f"thread kernel @k(%n: i32, %d: i64, %x: regs<64xf32>) attrs {{threads = 128}} {{\n"
        f"for 0, %n, 1{carried} {{\n{lines}\nyield {yielded}\n}}\n}}\n"
    )
    (loop,) = (op for op in kernel.walk() if isinstance(op, control.For))
    return issued(loop, WORK, TARGET.rates, groups)


def product(name: str) -> str:
    return f"%{name}, %{name}t = wgmma %d, %d {WGMMA}"


@pytest.mark.parametrize("groups", [1, 2, 3])
def test_functions_behind_a_product(groups: int) -> None:
    """64 products' cycles, then 64 instructions of 8 cycles for each warpgroup; the last result is there 8 + 3 cycles
    after its instruction began."""
    found = turn(
        product("s"), "%a = await %s, %st {pending = 0}", f"%e = ptx %a {EX2}", carried=" (%k: i32)", groups=groups
    )
    assert found.cycles == 64 + 63 * 8 * groups + 8 + 3
    assert found.busy == {"special": 512.0 * groups, "issue": 64.0 * groups}


def test_a_product_in_flight_hides_what_does_not_need_it() -> None:
    """The wait is for the turn before: 64 additions fit into the product's 64 cycles, 64 functions do not."""
    last = " = for 0, %n, 1, [%z] : token<wgmma> (%k: i32, %f: token<wgmma>) {"
    text = (
        "thread kernel @k(%n: i32, %d: i64, %x: regs<64xf32>) attrs {threads = 128} {\n"
        f'%z = no_token {{counter = "wgmma"}} : token<wgmma>\n%r{last}\n{product("s")}\nwait %f {{pending = 1}}\nBODY\n'
        "yield %st\n}\n}\n"
    )
    for body, cycles in (("%e = add %x, %x", 64 + 3), (f"%e = ptx %x {EX2}", 512 + 3)):
        kernel = parse_kernel(text.replace("BODY", body))
        (loop,) = (op for op in kernel.walk() if isinstance(op, control.For))
        assert issued(loop, WORK, TARGET.rates, 1).cycles == cycles


def test_the_first_wait_is_as_long_as_the_last() -> None:
    """The assembler moves both waits for products in front of the minima: two products, then 64 instructions of 2
    cycles; the last is complete 2 + 3 cycles after it began."""
    found = turn(
        product("s"),
        product("o"),
        "%a = await %s, %st {pending = 1}",
        "%m = min %a, %a",
        "%b = await %o, %ot {pending = 0}",
        carried=" (%k: i32)",
    )
    assert found.cycles == 2 * 64 + 63 * 2 + 2 + 3
    assert found.busy == {"integer": 128.0, "issue": 64.0}


def test_dependent_instructions_wait_for_each_other() -> None:
    """Six additions in halves of 64 registers: 32 + 16 + 8 + 4 + 2 + 1 instructions. The first four levels begin at 0,
    32, 48 and 56: by then what they read is there. The fourth's instructions 2 and 3 are issued at 58 and 59, so the
    fifth's at 62 and 63, the last at 67, and its result is there 4 cycles later."""
    halves = []
    value, count = "x", 64
    while count > 1:
        count //= 2
        low, high = (", ".join(map(str, range(at, at + count))) for at in (0, count))
        tail = "," if count == 1 else ""
        halves += [f"%l{count} = pick %{value} {{indices = ({low}{tail})}}"]
        halves += [f"%h{count} = pick %{value} {{indices = ({high}{tail})}}"]
        halves += [f"%v{count} = add %l{count}, %h{count}"]
        value = f"v{count}"
    found = turn(*halves, carried=" (%k: i32)")
    assert found.busy == {"arithmetic": 63.0, "issue": 63.0}
    assert found.cycles == 67 + 4


def test_a_single_register_is_waited_for() -> None:
    """The last of 64 functions, by 8 cycles each, and 64 subtractions behind it; an address costs nothing."""
    found = turn(
        f"%y = ptx %x {EX2}",
        "%p1 = pick %y {indices = (63,)}",
        "%s = sub %x, %p1",
        "%a = add %d, %d",
        carried=" (%k: i32)",
    )
    assert found.cycles == 63 * 8 + 8 + 3 + 63 + 4
    assert found.busy == {"special": 512.0, "arithmetic": 64.0, "issue": 128.0}


def test_pairs_are_one_instruction() -> None:
    found = turn("%c = cast %x {to = bf16}", "%m = mul %c, %c", carried=" (%k: i32)")
    assert found.busy == {"integer": 64.0, "arithmetic": 32.0, "issue": 64.0}


def test_whole_numbers_and_lanes() -> None:
    found = turn("%c = cast %x {to = i32}", "%s = shuffle_xor %x {mask = 1}", carried=" (%k: i32)")
    assert found.busy == {"special": 512.0, "shuffled": 256.0, "issue": 128.0}


def test_loops_with_products() -> None:
    """Those of the line alone, and only what issues asynchronous products."""
    loops = "".join(
        f'for 0, %n, 1 (%k: i32) {{\n{body}\nyield\n}} loc("user.py":{line}:1)\n'
        for body, line in ((product("s"), 6), ("%e = add %d, %d", 6), (product("s"), 7))
    )
    kernel = parse_kernel(f"thread kernel @k(%n: i32, %d: i64) attrs {{threads = 128}} {{\n{loops}}}\n")
    assert len(loops_of(kernel, 6, WORK)) == len(loops_of(kernel, 7, WORK)) == 1
    assert not loops_of(kernel, 8, WORK)
