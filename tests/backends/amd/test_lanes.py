"""What is known of masks, against what they are: programs on masks at random are run, and each way that is taken must
be a path."""

from __future__ import annotations

from random import Random

import pytest

from minitile.backends.amd.verify import exec_mask_cfg as module
from minitile.backends.amd.verify.assembly import Code, Instruction, read
from minitile.backends.amd.verify.exec_mask_cfg import paths
from minitile.backends.amd.verify.lanes import KINDS, START, Facts

LANES = 3
ALL = (1 << LANES) - 1
PAIRS = ["s[0:1]", "s[2:3]", "s[4:5]", "vcc", "exec"]
NUMBERS = ["s6", "s7"]
OPERATIONS = {
    "s_mov_b64": lambda a: a,
    "s_not_b64": lambda a: ALL & ~a,
    "s_and_b64": lambda a, b: a & b,
    "s_or_b64": lambda a, b: a | b,
    "s_xor_b64": lambda a, b: a ^ b,
    "s_andn2_b64": lambda a, b: a & ~b,
    "s_orn2_b64": lambda a, b: ALL & (a | ~b),
    "s_nand_b64": lambda a, b: ALL & ~(a & b),
    "s_nor_b64": lambda a, b: ALL & ~(a | b),
    "s_xnor_b64": lambda a, b: ALL & ~(a ^ b),
}
SAVING = {
    "s_and_saveexec_b64": lambda s, exec: s & exec,
    "s_or_saveexec_b64": lambda s, exec: s | exec,
    "s_xor_saveexec_b64": lambda s, exec: s ^ exec,
    "s_andn2_saveexec_b64": lambda s, exec: s & ~exec,
    "s_andn1_saveexec_b64": lambda s, exec: exec & ~s,
    "s_andn1_wrexec_b64": lambda s, exec: exec & ~s,
    "s_andn2_wrexec_b64": lambda s, exec: s & ~exec,
}
COMPARES = {
    "eq": lambda a, b: a == b, "lg": lambda a, b: a != b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
}  # fmt: skip


def program(rng: Random) -> str:
    """Blocks that end in branches to any of them, with the idioms of LLVM among instructions of all kinds."""
    blocks = rng.randrange(3, 9)
    lines: list[str] = []
    for n in range(blocks):
        lines.append(f".L{n}:")
        lines += [instruction(rng) for _ in range(rng.randrange(1, 6))]
        on = rng.choice(["execz", "execnz", "vccz", "vccnz", "scc0", "scc1", ""])
        if on.startswith("vcc") and rng.random() < 0.7:
            lines.append(f"\ts_and_b64 vcc, exec, {rng.choice(PAIRS)}")
        if on:
            lines.append(f"\ts_cbranch_{on} .L{rng.randrange(blocks)}")
        elif rng.random() < 0.3:
            lines.append(f"\ts_branch .L{rng.randrange(blocks)}")
    return "\n".join([*lines, "\ts_endpgm", ""])


def instruction(rng: Random) -> str:
    pair, masks = rng.choice(PAIRS), [rng.choice([*PAIRS, "0", "-1"]) for _ in range(2)]
    kind = rng.randrange(8)
    if kind == 0:
        name = rng.choice(list(SAVING))
        return f"\t{name} {rng.choice(PAIRS[:-1])}, {masks[0]}"
    if kind == 1:
        return f"\ts_cselect_b64 {pair}, {masks[0]}, {masks[1]}"
    if kind == 2:
        sort = rng.choice(["i32", "u32"])
        return f"\ts_cmp_{rng.choice(list(COMPARES))}_{sort} {rng.choice(NUMBERS)}, {rng.randrange(3)}"
    if kind == 3:
        return rng.choice(
            [
                f"\tv_cmp_lt_i32_e64 {rng.choice(PAIRS[:-1])}, 0, v0",
                f"\ts_add_i32 {rng.choice(NUMBERS)}, s9, 1",
                f"\ts_mov_b32 {rng.choice(NUMBERS)}, s9",
                f"\ts_bitcmp{rng.randrange(2)}_b32 {rng.choice(NUMBERS)}, {rng.randrange(2)}",
                "\tv_cmpx_lt_i32_e32 vcc, 0, v0",
                "\ts_mov_b32 s2, s9",
            ]
        )
    if kind == 4:
        return f"\ts_or_b64 exec, exec, {pair}"
    name = rng.choice(list(OPERATIONS))
    sources = masks[:1] if name in ("s_mov_b64", "s_not_b64") else masks
    return f"\t{name} {', '.join([pair, *sources])}"


def run(code: Code, rng: Random, blocks: int) -> list[int]:
    """The blocks that one wave goes through, from any contents of its registers."""
    state = {name: rng.randrange(ALL + 1) for name in PAIRS} | {name: rng.randrange(4) for name in NUMBERS}
    state |= {"exec": rng.randrange(1, ALL + 1), "scc": rng.randrange(2)}
    taken, at = [0], 0
    while len(taken) < blocks:
        block = code.blocks[at]
        for ins in code.inside(at):
            execute(ins, state, rng)
        last = code.instructions[block.stop - 1]
        if last.ends:
            break
        jumps = {
            "always": True, "execz": not state["exec"], "execnz": state["exec"], "vccz": not state["vcc"],
            "vccnz": state["vcc"], "scc0": not state["scc"], "scc1": state["scc"], "": False,
        }[last.branch]  # fmt: skip
        at = block.following[0 if jumps else -1]
        taken.append(at)
    return taken


def execute(ins: Instruction, state: dict[str, int], rng: Random) -> None:
    def value(operand: str) -> int:
        return {"0": 0, "-1": ALL}.get(operand, state.get(operand, 0))

    name, (to, *sources) = ins.name, ins.operands if ins.operands != ("",) else ("", "")
    if name in OPERATIONS:
        state[to] = OPERATIONS[name](*map(value, sources))
        if name != "s_mov_b64":
            state["scc"] = int(state[to] != 0)
    elif name in SAVING:
        made = SAVING[name](value(sources[0]), state["exec"])
        state[to] = made if "wrexec" in name else state["exec"]
        state["exec"] = made
        state["scc"] = int(made != 0)
    elif name == "s_cselect_b64":
        state[to] = value(sources[0 if state["scc"] else 1])
    elif name.startswith("s_cmp"):
        state["scc"] = int(COMPARES[name.split("_")[2]](state[to], int(sources[0])))
    elif name.startswith("s_bitcmp"):
        state["scc"] = int((state[to] >> int(sources[0]) & 1) == int(name[len("s_bitcmp")]))
    elif name.startswith("v_cmp"):
        state[to] = rng.randrange(ALL + 1) & state["exec"]
        if name.startswith("v_cmpx"):
            state["exec"] = state[to]
    elif name in ("s_add_i32", "s_mov_b32"):
        state["s[2:3]" if to == "s2" else to] = rng.randrange(4)
        if name == "s_add_i32":
            state["scc"] = rng.randrange(2)


def follows(found: list[module.Path], taken: list[int]) -> bool:
    """Whether some path goes through these blocks."""
    at = {0}
    for block in taken[1:]:
        at = {to for n in at for to in found[n].following if found[to].block == block}
    return bool(at)


@pytest.mark.parametrize("closely", [False, True])
def test_each_way_that_is_taken_is_a_path(closely):
    left_out = 0
    for seed in range(60):
        rng = Random(seed)
        code = read(program(rng))
        found = paths(code, closely)
        for _ in range(60):
            taken = run(code, rng, 40)
            assert follows(found, taken), f"seed {seed}: {taken}"
        known = [len(path.following) < len(code.blocks[path.block].following) for path in found]
        left_out += sum(known)
    assert left_out > 50, "and branches are known to go one way"


def test_few_kinds_of_lanes_and_few_ways(monkeypatch):
    """What is too much is forgotten; what is said still holds."""
    monkeypatch.setattr(module, "WAYS", 2)
    monkeypatch.setattr("minitile.backends.amd.verify.lanes.KINDS", 4)
    for seed in range(40):
        rng = Random(seed)
        code = read(program(rng))
        found = paths(code, closely=True)
        assert len(found) <= 10 * len(code.blocks)
        for _ in range(40):
            taken = run(code, rng, 30)
            assert follows(found, taken), f"seed {seed}: {taken}"


def test_masks_that_are_forgotten_are_those_that_say_nothing_of_exec():
    names = [f"s[{n}:{n + 1}]" for n in range(0, 16, 2)]
    facts = START.with_masks(names).assigned({"s[20:21]": lambda kind: "exec" in kind and "s[0:1]" in kind})
    kept = facts.only(frozenset({*facts.of}))
    assert len(kept.kinds) <= KINDS
    assert {"exec", "s[20:21]"} <= kept.of
    assert all("exec" in kind for kind in kept.kinds if "s[20:21]" in kind)


def test_what_both_ways_know():
    one = START.assigned({"vcc": lambda kind: "exec" in kind})
    other = START.assigned({"vcc": lambda kind: False})
    both: Facts = one.joined(other)
    assert both.where_none("exec") is None
    assert both.where_none("vcc") is not None
    assert all("exec" in kind for kind in both.kinds if "vcc" in kind)
