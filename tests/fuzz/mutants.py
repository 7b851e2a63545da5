"""Texts gone wrong, for `tests.fuzz.texts`: mutations of lines, tokens, numbers and brackets, and instructions made up
from the simulators' own tables of forms. Everything follows from the `random.Random` that is handed in."""

from __future__ import annotations

import random
import re
import string
from re import _parser as sre  # type: ignore[attr-defined]
from typing import Any

from minitile.runtime.sim.amdgcn import forms as gcn_forms
from minitile.runtime.sim.ptx import forms as ptx_forms

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "8", "31", "32", "63", "64", "127", "128", "255", "256", "1023", "4096", "65535",
    "65536", "2147483647", "2147483648", "4294967295", "-2147483648", "9223372036854775807", "18446744073709551616",
    "1000000000000", "9" * 40, "9" * 5000, "1e400", "-0.0", "inf", "nan", "0x", "0xffffffff", "08", "1.5", "0f7fc00000",
    "0d7ff8000000000000", "true",
)  # fmt: skip
_TOKEN = re.compile(r"[A-Za-z_%@.$][\w.$:@]*|\d+(?:\.\d+)?|\s+|.", re.S)
_NUMBER = re.compile(r"(?<![\w.%])-?\d+")


def mutant(rng: random.Random, text: str, words: list[str]) -> str:
    """The text after one to four mutations. `words` are tokens of other texts of its kind."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        text = rng.choice(_MUTATIONS)(rng, text, words)
    return text


def _lines(rng: random.Random, text: str, words: list[str]) -> str:
    """A line deleted, said twice, moved, or cut short."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    what = rng.randrange(4)
    line = lines.pop(at)
    if what == 1:
        lines[at:at] = [line, line]
    elif what == 2:
        lines.insert(rng.randrange(len(lines) + 1), line)
    elif what == 3:
        lines.insert(at, line[: rng.randrange(len(line) + 1)])
    return "\n".join(lines)


def _tokens(rng: random.Random, text: str, words: list[str]) -> str:
    """A token deleted, said twice, swapped with another, or replaced by a word from elsewhere."""
    start = rng.randrange(max(len(text), 1))
    begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    end = len(text) if end < 0 else end
    tokens = _TOKEN.findall(text[begin:end])
    if not tokens:
        return text
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    what = rng.randrange(5)
    if what == 0:
        del tokens[at]
    elif what == 1:
        tokens.insert(at, tokens[at])
    elif what == 2:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    else:
        tokens[at] = rng.choice(words)
    return text[:begin] + "".join(tokens) + text[end:]


def _numbers(rng: random.Random, text: str, words: list[str]) -> str:
    found = list(_NUMBER.finditer(text))
    if not found:
        return text
    one = rng.choice(found)
    return text[: one.start()] + rng.choice(NUMBERS) + text[one.end() :]


def _characters(rng: random.Random, text: str, words: list[str]) -> str:
    at = rng.randrange(len(text) + 1)
    what = rng.randrange(4)
    if what == 0:
        return text[:at] + rng.choice(string.printable + "é²\x00\u2028") + text[at:]
    if what == 1:
        return text[:at] + text[at + rng.choice((1, 1, 2, 10, 100)) :]
    if what == 2:
        return text[:at]
    return text[:at] + rng.choice("([{<\"'!-+|%.:,") * rng.choice((1, 2, 50, 3000)) + text[at:]


def _repeats(rng: random.Random, text: str, words: list[str]) -> str:
    """A piece of text many times over: depth, length, counts."""
    start = rng.randrange(len(text) + 1)
    piece = text[start : start + rng.choice((1, 2, 5, 20, 100))]
    return text[:start] + piece * rng.choice((2, 10, 300)) + text[start:]


_MUTATIONS = (_lines, _lines, _tokens, _tokens, _tokens, _tokens, _numbers, _numbers, _characters, _repeats)


def from_pattern(rng: random.Random, pattern: str) -> str:
    """Some text that a regular expression of the tables matches."""
    return _sample(rng, sre.parse(pattern))


def _sample(rng: random.Random, tree: Any) -> str:
    made = []
    for kind, value in tree:
        name = str(kind)
        if name == "LITERAL":
            made.append(chr(value))
        elif name == "IN":
            made.append(_member(rng, value))
        elif name == "BRANCH":
            made.append(_sample(rng, rng.choice(value[1])))
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, inner = value
            made += [_sample(rng, inner) for _ in range(rng.randint(least, min(int(most), least + 3)))]
        elif name == "SUBPATTERN":
            made.append(_sample(rng, value[-1]))
        elif name == "ANY":
            made.append("x")
        else:
            raise ValueError(f"the tables' patterns have no {name}")
    return "".join(made)


def _member(rng: random.Random, value: Any) -> str:
    name, given = rng.choice(value)
    if str(name) == "LITERAL":
        return chr(given)
    if str(name) == "RANGE":
        return chr(rng.randint(*given))
    return {"CATEGORY_DIGIT": "8", "CATEGORY_WORD": "x", "CATEGORY_SPACE": " "}.get(str(given), "x")


_PTX_OPERANDS = {
    "d": ("%r{n}", "%r{n}", "%rd{n}", "%f{n}", "%p{n}", "%h{n}", "_", "{{%r1, %r2}}", "{{%r1, %r2, %r3, %r4}}"),
    "P": ("%p{n}", "%p{n}|%p1", "%r{n}|%p2", "%r{n}", "_"),
    "r": ("%r{n}", "%r{n}", "%rd{n}", "%f{n}", "%p{n}", "%h{n}", "%d{n}", "{c}", "{c}", "%tid.x", "smem",
          "{{%r1, %r2}}", "!%p1", "0f3F800000", "{{%h1, %h2}}", "{{%r1, %r2, %r3, %r4}}", "{{%f1, %f2, %f3, %f4}}"),
    "a": ("[%rd{n}]", "[%rd1]", "[%rd1+{c}]", "[smem]", "[smem+{c}]", "[%r{n}]", "[A]", "[{c}]", "[loc]"),
    "m": ("[%rd1, {{%r1, %r2}}]", "[%rd1, {{%r1}}]"),
    "i": ("{c}", "16", "128", "0"),
    "v": ("{{%f1, %f2, %f3, %f4}}", "{{" + ", ".join(f"%f{i}" for i in range(8)) + "}}", "{{%r1}}"),
    "y": ("DONE", "L", "targets", "callee", "A"),
    "t": ("(loc)", "(A)", "()", "(loc, loc)", "(3)"),
}  # fmt: skip
_PTX = """.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 128 .b8 dyn[];
.visible .entry k(.param .u64 A, .param .u32 n)
{{
.reg .pred %p<9>;
.reg .b16 %h<9>;
.reg .b32 %r<33>;
.reg .f32 %f<33>;
.reg .b64 %rd<9>;
.reg .f64 %d<9>;
.shared .align 128 .b8 smem[4096];
.local .align 16 .b8 loc[64];
{first}
{body}
L:
DONE:
ret;
}}
"""
_PTX_FIRST = "\n".join(
    [
        "ld.param.u64 %rd1, [A];\ncvta.to.global.u64 %rd1, %rd1;\nmov.u64 %rd2, smem;",
        *(f"mov.u32 %r{i}, {i * 16};" for i in range(9)),
        *(f"mov.f32 %f{i}, 0f3F800000;\nmov.b32 %r{i + 10}, 0;" for i in range(9)),
        *(f"mov.b64 %rd{i}, {i * 64};\nmov.f64 %d{i}, 0d3FF0000000000000;" for i in range(3, 9)),
        *(f"setp.eq.u32 %p{i}, %r1, {i};\nmov.b16 %h{i}, {i};" for i in range(9)),
    ]
)


def ptx_program(rng: random.Random) -> str:
    """A kernel of a few instructions, each of a form that the table allows, with operands of the right kind."""
    lines = []
    for _ in range(rng.randint(1, 5)):
        opcode = rng.choice(sorted(ptx_forms.FORMS))
        pattern, wanted = rng.choice(ptx_forms.FORMS[opcode])
        items = wanted.split()
        least = next((i for i, item in enumerate(items) if item.endswith("?")), len(items))
        operands = [
            rng.choice(_PTX_OPERANDS[item[0]]).format(n=rng.randrange(9), c=rng.choice(NUMBERS[:18]))
            for item in items[: rng.randint(least, len(items))]
        ]
        guard = rng.choice(("", "", "", "@%p1 ", "@!%p2 "))
        lines.append(f"{guard}{opcode}{from_pattern(rng, pattern)} {', '.join(operands)};")
    return _PTX.format(first=_PTX_FIRST, body="\n".join(lines))


_GCN = """\t.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
\t.text
k:
{first}
{body}
L:
\ts_endpgm
\t.amdhsa_kernel k
\t.amdhsa_group_segment_fixed_size 4096
\t.amdhsa_private_segment_fixed_size 64
\t.amdhsa_user_sgpr_count 2
\t.amdhsa_user_sgpr_kernarg_segment_ptr 1
\t.amdhsa_kernarg_size 16
\t.end_amdhsa_kernel
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset: 0
        .size: 8
        .value_kind: global_buffer
    .max_flat_workgroup_size: 256
    .name: k
...
\t.end_amdgpu_metadata
"""
_GCN_FIRST = "\n".join(
    [
        "\ts_load_dwordx2 s[4:5], s[0:1], 0x0\n\ts_waitcnt lgkmcnt(0)\n\ts_mov_b32 s6, 0x1000\n\ts_mov_b32 s7, 0x20000",
        *(f"\tv_mov_b32_e32 v{i}, {i * 4 % 64}" for i in range(40)),
        *(f"\ts_mov_b32 s{i}, {i}" for i in range(8, 20)),
    ]
)
_GCN_VALUES: dict[str, tuple[Any, ...]] = {
    name: (True, 0, 1, 2, 3, 15, 31, 255, 4095, (1, 0), (0, 1, 1), (0, 1, 2, 3), "DWORD", "BYTE_1", "WORD_1",
           "UNUSED_PAD", "UNUSED_PRESERVE", "swizzle(QUAD_PERM,0,1,2,3)", "swizzle(BROADCAST,8,3)")
    for group in gcn_forms.MODIFIERS.values() for name in group
}  # fmt: skip


def gcn_program(rng: random.Random) -> str:
    """The same for AMD's assembly."""
    lines = [_gcn_line(rng) for _ in range(rng.randint(1, 5))]
    return _GCN.format(arch=rng.choice(("gfx942", "gfx950")), first=_GCN_FIRST, body="\n".join(lines))


def _gcn_line(rng: random.Random) -> str:
    name = rng.choice(sorted(gcn_forms.FORMS))
    takes, group = gcn_forms.FORMS[name]
    form = rng.choice((takes if isinstance(takes, str) else takes(name)).split("|"))
    items = form.split()
    least = next((i for i, item in enumerate(items) if item.endswith("?")), len(items))
    operands = [_gcn_operand(rng, item.rstrip("?")) for item in items[: rng.randint(least, len(items))]]
    mods = []
    known = gcn_forms.MODIFIERS[group]
    for mod in rng.sample(sorted(known), min(len(known), rng.choice((0, 0, 1, 2)))):
        fitting = [value for value in _GCN_VALUES[mod] if known[mod](value)]
        if fitting:
            value = rng.choice(fitting)
            text = "[" + ",".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)
            mods.append(mod if value is True else f"{mod}:{text}")
    encoding = rng.choice(("", "", "", "_e32", "_e64", "_dpp", "_sdwa")) if name.startswith("v_") else ""
    return f"\t{name}{encoding} {', '.join(operands)} {' '.join(mods)}".rstrip()


def _gcn_operand(rng: random.Random, item: str) -> str:
    if item == "off":
        return "off"
    kind, words = item[0], item[1:]
    if kind in "LIW":
        raw = ("vmcnt(0)", "lgkmcnt(0)", "s4, hwreg(HW_REG_HW_ID)", "0")
        return {"L": "L", "I": rng.choice(NUMBERS[:18]), "W": rng.choice(raw)}[kind]
    count = rng.choice((1, 2, 4, 8)) if words == "*" else int(words or 1)
    if kind.isupper() and rng.random() < 0.3:
        return rng.choice((*NUMBERS[:18], "0.5", "-4.0", "1.0", "0x3e22f983", "k@rel32@lo+4"))
    file = rng.choice({"v": "vva", "V": "vvs", "s": "s", "S": "s"}[kind])
    first = rng.randrange(0, 16 if file == "s" else 32)
    first -= first % min(count, 4) if file == "s" else 0
    text = f"{file}{first}" if count == 1 else f"{file}[{first}:{first + count - 1}]"
    return rng.choice(
        (text, text, text, "vcc" if count == 2 and file == "s" else text, f"-{text}" if kind == "V" else text)
    )
