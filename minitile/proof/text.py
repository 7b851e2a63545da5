"""PTX text for the proof: instructions with what they read and write, control flow, liveness, and what counts.

Only the body of one entry in a flat scope is read. What is not understood is `Refused`, with its line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

from minitile.proof.butterflies import same_in_all_lanes
from minitile.proof.loops import canonical
from minitile.proof.reading import Refused as Refused
from minitile.proof.reading import Statement, statements, without_block_comments, without_debug_sections

REGISTER = re.compile(r"%[A-Za-z_]\w*(?:\.[xyz])?")
INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
# Instructions that compute registers from registers; the first operand is the destination. `ld` of global and of
# parameters is among them: what is loaded is a symbol or unknown.
_ARITHMETIC = """
    mov cvt cvta add sub mul mad fma div rem min max neg abs and or xor not shl shr shf prmt lop3 bfe bfi setp selp set
    ex2 lg2 rcp sqrt rsqrt sin cos tanh copysign clz popc brev bfind ld shfl elect mma vote redux match activemask addc
    subc madc sad dp4a dp2a mad24 mul24 slct testp fns szext bmsk cnot mapa"""
ARITHMETIC = frozenset(_ARITHMETIC.split())
# Instructions that do more than to write a register.
_EVENTS = """
    bra ret bar barrier fence membar mbarrier cp wgmma st stmatrix ldmatrix griddepcontrol setmaxnreg prefetch nanosleep
    red atom ~beyond ~round"""
EVENTS = frozenset(_EVENTS.split())


class Fault(Refused):
    """A rule is broken on a run of abstract steps; the run is real unless a step asks for more than any launch does.

    `answers`: to the questions of the run, in order; `residues`: of the case it is in (explore.Explorer). `hangs_on`: a
    symbol and a modulus: by its residue answers may depend on each other that were taken for independent.
    """

    answers: tuple[bool, ...] = ()
    residues: Mapping[Any, tuple[int, int]] = MappingProxyType({})
    together: frozenset[int] = frozenset()
    hangs_on: tuple[Hashable, int] | None = None


@dataclass(frozen=True)
class Launch:
    """Facts of a launch that the text does not hold.

    boxes: bytes that a copy by each tensor map moves, by the parameter's name. threads: of the block; None: what
    `.reqntid` says. shared: bytes of dynamic shared memory; None: what the comment at its declaration says. divides:
    what a parameter is a multiple of, by its name. least: what it is at least. grid: how many blocks there are along
    x, y, z, where that is known: a number, ("param", name), or (operation, a, b) with add, sub, mul, floordiv.
    aligned: bytes that dynamic shared memory is aligned to, if that is more than the text declares. block: threads
    along x, y, z; (): they lie along x, or as `.reqntid` says.
    """

    boxes: Mapping[str, int]
    threads: int | None = None
    shared: int | None = None
    divides: Mapping[str, int] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    grid: Mapping[str, Any] = field(default_factory=dict)
    aligned: int = 0
    block: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction. `reads` holds the guard too; a guarded write reads its destination."""

    pc: int
    line: int
    text: str
    op: str
    args: tuple[str, ...]
    guard: str
    negated: bool
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    target: int = -1

    @cached_property
    def base(self) -> str:
        return self.op.partition(".")[0]


@dataclass(frozen=True)
class Loop:
    """A loop `head … back` whose test is `counter < bound`, and whose counter only grows by `step`."""

    head: int
    back: int
    counter: str
    bound: str
    step: int


@dataclass(frozen=True)
class Region:
    """A loop that only computes, from global memory among others: what lies before `end`. `inputs`: registers that it
    may read before it writes them; `outputs`: those that it writes, with their place in `text`; `loads`: what the
    addresses that it loads from are computed of."""

    end: int
    inputs: tuple[str, ...]
    outputs: Mapping[str, int]
    loads: frozenset[str]
    text: str


@dataclass(frozen=True)
class Program:
    """A parsed entry. `shape`: threads along x, y, z; `arrays`: shared arrays as name to (address, bytes),
    `aligned`: to what each is;
    `live[pc]`: registers live before pc;
    `ahead[pc]`: instructions that may be reached from pc; `next_kept[pc]`: the next one that counts; `spins`: backward
    branches of loops that only compute and wait for global memory; `whiles`: of others, by what shared memory tells;
    `stepped`: of others, which must be known to go on or to end, with the reason why they are not counted;
    `same`: stores of what is the same in all lanes;
    `regions`: loops that only compute, of loaded data, by where they begin; `pointers`: parameters of 64 bits;
    `only_read`: those of them by which nothing is stored to global memory; `parameters`: bits of each (an array: 0)."""

    name: str
    code: tuple[Instruction, ...]
    threads: int
    shape: tuple[int, int, int]
    arrays: Mapping[str, tuple[int, int]]
    aligned: Mapping[str, int]
    loops: tuple[Loop, ...]
    live: tuple[frozenset[str], ...]
    needed: frozenset[str]
    ahead: tuple[int, ...]
    next_kept: tuple[int, ...]
    spins: frozenset[int]
    whiles: frozenset[int]
    stepped: Mapping[int, str]
    regions: Mapping[int, Region]
    same: frozenset[int]
    pointers: frozenset[str]
    only_read: frozenset[str]
    parameters: Mapping[str, int]


def registers(text: str) -> tuple[str, ...]:
    return tuple(REGISTER.findall(text))


_WRITERS = ("mbarrier.try_wait", "mbarrier.arrive", "wgmma.mma_async", "bar.red", "barrier.red")


def _instruction(pc: int, each: Statement) -> Instruction:
    op, args, line, guard = each.op, each.args, each.line, each.guard
    base = op.partition(".")[0]
    if base not in ARITHMETIC and base not in EVENTS:
        raise Refused(line, f"not known: {op}")
    if re.fullmatch(r"(?:ld|st)(?:\.v[24])?\.[busf]\d+", op):
        op = f"{base}.shared::any{op.removeprefix(base)}"  # a generic address, perhaps of shared memory
    if base == "ld" and not re.match(r"ld\.(?:param|const|local|shared|(?:\w+\.)*?global)\b", op):
        raise Refused(line, f"not known: {op}")  # it might be of shared memory
    writes: tuple[str, ...] = ()
    if (base in ARITHMETIC or base in ("ldmatrix", "atom") or op.startswith(_WRITERS)) and args:
        writes = registers(args[0])
    behind = args[1:] if writes and base != "wgmma" else args
    reads = tuple(r for each in behind for r in registers(each)) + ((guard, *writes) if guard else ())
    return Instruction(pc, line, each.text, op, args, guard, each.negated, writes, reads)


def _instructions(body: list[tuple[int, str]]) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions of a body, and where its labels are."""
    found, last = canonical(*statements(body), lambda each: _instruction(0, each).writes, ARITHMETIC)
    labels = {name: n for n, each in enumerate(found) for name in each.labels} | dict.fromkeys(last, len(found))
    return [_instruction(n, each) for n, each in enumerate(found)], labels


def _body(text: str) -> tuple[str, str, list[tuple[int, str]]]:
    """The entry's name, the text before its body, and the lines of the body with their numbers."""
    code = re.sub(r"//[^\n]*", lambda match: " " * len(match[0]), text)
    entries = re.findall(r"\.entry\s+([\w$]+)", code)
    if len(entries) != 1 or re.search(r"\.func\b", code):
        raise Refused(0, "not exactly one entry, or functions")
    begin, end = code.find("{"), code.rfind("}")
    if begin < code.index(".entry") or end < begin:
        raise Refused(0, "the entry has no body")
    if code[end + 1 :].strip():
        raise Refused(text.count("\n", 0, end) + 2, "text behind the entry")
    lines = text[begin + 1 : end].split("\n")
    return entries[0], text[:begin], list(enumerate(lines, text.count("\n", 0, begin) + 1))


BASE = 4 * 1024  # where shared memory begins
MOST_BYTES = 1 << 20  # that a shared array may have, or be aligned to
GAP = 1024  # bytes between shared arrays, which may lie in any order: so that what is beyond one is in no other


def _place(least: int, align: int) -> int:
    """The first address from `least` that is aligned so, and no better: so that nothing better is made use of."""
    return -(-(least - align) // (2 * align)) * 2 * align + align


def _arrays(
    header: str, body: list[tuple[int, str]], launch: Launch
) -> tuple[dict[str, tuple[int, int]], dict[str, int]]:
    """Shared arrays, as address and bytes, and what each is aligned to; a dynamic array stands behind the others.
    One that declares no alignment has that of its elements."""
    declared = re.compile(
        r"(?<![\w.:])\.shared\s+(?:\.align\s+(\d+)\s+)?\.(?:b|u|s|f)(\d+)\s+(\w+)((?:\[\d*\])*)\s*;"
        r"\s*(?://\s*(\d+) bytes)?"
    )
    lines = (*header.split("\n"), *(line for _, line in body))
    # A comment counts behind a dynamic array only, whose bytes it tells.
    code = "\n".join(line if "[];" in line.partition("//")[0] else line.partition("//")[0] for line in lines)
    found = list(declared.finditer(code))
    if len(found) != len(re.findall(r"(?<![\w.:])\.shared\b", code)):
        raise Refused(0, "a shared variable that is declared in a form that is not known")
    others = re.findall(r"(?<![\w.:])\.(?:local|global|const|param)\b[^;,)]*", code)
    arrays: dict[str, tuple[int, int]] = {}
    aligned: dict[str, int] = {}
    end = BASE
    for dynamic in (False, True):
        for each in found:
            extents = re.findall(r"\[(\d*)\]", each[4])  # none: a scalar
            if ("" in extents) is not dynamic:
                continue
            if dynamic and len(extents) > 1:
                raise Refused(0, f"not known: {each[0]}")
            align = int(each[1] or max(int(each[2]) // 8, 1))
            align = max(align, launch.aligned) if dynamic else align
            if align < 1 or align & (align - 1):
                raise Refused(0, f"an alignment that is not a power of two: {align}")
            start = _place(end + GAP * bool(arrays), align)
            size = (
                math.prod(map(int, extents)) * int(each[2]) // 8
                if not dynamic
                else int(each[5] or 0)
                if launch.shared is None
                else launch.shared
            )
            if each[3] in arrays or any(each[3] in re.findall(r"[\w$]+", other) for other in others):
                raise Refused(0, f"a name that stands for two variables: {each[3]}")
            if not 0 <= size <= MOST_BYTES or align > MOST_BYTES:
                raise Refused(0, f"more shared memory than there is: {each[0]}")
            arrays[each[3]], aligned[each[3]] = (start, size), align
            end = start + size
    return arrays, aligned


def parse(text: str, launch: Launch) -> Program:
    """The only entry of a text. Raises Refused."""
    text = without_debug_sections(without_block_comments(text.replace("\r\n", "\n")))
    _refuse_forms(text)
    name, header, body = _body(text)
    code, labels = _instructions(body)
    if re.search(r"\.(reqnctapercluster|explicitcluster|maxclusterrank)", header):
        raise Refused(0, "clusters")
    shape = _shape(header, launch)
    threads = math.prod(shape)
    if not code or code[-1].guard or code[-1].op not in ("ret", "bra", "bra.uni"):
        raise Refused(0, "control runs out of the entry")
    for n, each in enumerate(code):
        if each.base == "bra":
            if each.op not in ("bra", "bra.uni") or len(each.args) != 1 or each.args[0] not in labels:
                raise Refused(each.line, f"not known: {each.text}")
            code[n] = replace(each, target=labels[each.args[0]])
    end = max((each.pc for each in code if each.op == "ret" and not each.guard), default=0)
    for n, each in enumerate(code[:end]):
        if each.op == "ret":  # lanes that end are lanes that go where others end
            code[n] = replace(each, op="bra", target=end)
    arrays, aligned = _arrays(header, body, launch)
    _refuse_windows(code, arrays)
    successors = [successors_of(each) for each in code]
    live = _live(code, successors)
    ahead = _ahead(code, successors)
    reaching = _reaching(code, successors)
    regions = _regions(code, live, reaching)
    loops, spins, whiles, stepped = _loops(code, regions)
    spans = {head: (each.end, code[head : each.end]) for head, each in regions.items()}
    needed, _ = _needed(code, loops, spans, reaching)
    pointers = frozenset(re.findall(r"\.param\s+\.[bu]64\b[^,)]*?(\w+)\s*(?=[,)\n])", header))
    return Program(
        name=name,
        code=tuple(code),
        threads=threads,
        shape=shape,
        arrays=arrays,
        aligned=aligned,
        loops=loops,
        live=tuple(frozenset(each & needed) for each in live),
        needed=needed,
        ahead=tuple(ahead),
        next_kept=_next_kept(code, needed),
        spins=spins,
        whiles=whiles,
        stepped=stepped,
        regions=regions,
        same=frozenset(same_in_all_lanes(code, reaching)),
        pointers=pointers,
        only_read=pointers - _stored_by(code),
        parameters=_parameters(header),
    )


def _shape(header: str, launch: Launch) -> tuple[int, int, int]:
    """Threads of a block along x, y, z."""
    found = re.search(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.sub(r"//[^\n]*", "", header))
    if launch.block and (len(launch.block) > 3 or min(launch.block) < 1):
        raise Refused(0, f"a block of {launch.block} threads")
    x, y, z = (*launch.block, *(1, 1, 1)[len(launch.block) :])
    if found:
        required = int(found[1]), int(found[2] or 1), int(found[3] or 1)
        if launch.block and required != (x, y, z):
            raise Refused(0, "threads of the launch are not .reqntid")
        x, y, z = required
    elif not launch.block:
        if not launch.threads:
            raise Refused(0, "how many threads a block has is not said")
        x = launch.threads
    threads = x * y * z
    if launch.threads not in (None, threads):
        raise Refused(0, "threads of the launch are not .reqntid" if found else "a block of other extents than threads")
    if not 0 < threads <= 1024 or threads % 32:
        raise Refused(0, f"threads: {threads}")
    return x, y, z


_PLACES = re.compile(
    r"\.loc(?:\s+\d+){3}(?:\s*,\s*(?:function_name|inlined_at)\s+[\w$]+(?:\s*\+\s*\d+)?(?:\s+\d+)*)*\s*|"
    r'\.file\s+\d+\s+"[^"]*"(?:\s*,\s*\d+)*\s*'
)


def _refuse_forms(text: str) -> None:
    """Refuses what may be read in two ways, or stands for something else than it says."""
    code = re.sub(r"//[^\n]*", "", text)
    for line, each in enumerate(text.split("\n"), 1):
        if re.search(r"\\\s*$|[^\S \t]|[\x00-\x08\x0e-\x1f\x7f-\x9f]", each):
            raise Refused(line, "a character that is not printed, or a line that may go on in the next one")
    for line, each in enumerate(code.split("\n"), 1):
        place = re.search(r"\.(?:loc|file)\b.*", each)
        if re.search(r"(?<![\w.$%])0\d+(?![\w.])", each):
            raise Refused(line, f"an octal number: {each.strip()}")
        if not each.isascii() or each.lstrip().startswith("#") or (place and not _PLACES.fullmatch(place[0])):
            raise Refused(line, f"not known: {each.strip()}")
    if re.search(r"\.reg\s+\.v", code):
        raise Refused(0, "registers of several parts")
    if len(re.findall(r"\[\s*\]\s*;", code)) > 1:
        raise Refused(0, "several dynamic shared arrays: they lie at one address")


def _parameters(header: str) -> dict[str, int]:
    """Parameters by name: their bits, 0 for arrays of bytes and for what is no integer, and so no size."""
    each = re.compile(r"\.param\s+([^,)]*?)([\w$]+)\s*(\[\d*\])?\s*(?=[,)\n])")
    types = ((m[2], re.findall(r"\.[bus](\d+)\b", m[1]), m[3]) for m in each.finditer(re.sub(r"//[^\n]*", "", header)))
    return {name: 0 if array or not bits else int(bits[0]) for name, bits, array in types}


def successors_of(each: Instruction) -> tuple[int, ...]:
    """The instructions that may be executed next; one behind the last: control runs out."""
    if each.base == "bra":
        return (each.target, each.pc + 1) if each.guard else (each.target,)
    return () if each.op == "ret" and not each.guard else (each.pc + 1,)


def _live(code: list[Instruction], successors: list[tuple[int, ...]]) -> list[set[str]]:
    live: list[set[str]] = [set() for _ in code]
    changed = True
    while changed:
        changed = False
        for each in reversed(code):
            out = set().union(*(live[n] for n in successors[each.pc] if n < len(code)))
            new = (out - set(each.writes)) | set(each.reads)
            if new != live[each.pc]:
                live[each.pc], changed = new, True
    return live


def _ahead(code: list[Instruction], successors: list[tuple[int, ...]]) -> list[int]:
    """Bit masks of what may be reached, itself included."""
    ahead = [1 << n for n in range(len(code))]
    changed = True
    while changed:
        changed = False
        for n in range(len(code) - 1, -1, -1):
            new = ahead[n]
            for each in successors[n]:
                new |= ahead[each] if each < len(code) else 0
            if new != ahead[n]:
                ahead[n], changed = new, True
    return ahead


def is_wait(code: tuple[Instruction, ...] | list[Instruction], pc: int) -> bool:
    """Whether a `try_wait` at pc is tried again by the next instruction until it holds."""
    each, behind = code[pc], code[pc + 1] if pc + 1 < len(code) else None
    return bool(
        each.op.startswith("mbarrier.try_wait")
        and not each.guard
        and behind
        and behind.base == "bra"
        and behind.target == pc
        and behind.negated
        and behind.guard == each.args[0]
    )


_MEET = ("elect", "shfl", "vote", "redux", "match", "mma", "activemask", "ld.shared")
STORES = ("st.global.", "st.volatile.global.", "st.relaxed.gpu.global.", "st.release.gpu.global.")
_OF_GLOBAL = (*STORES, "prefetch", "nanosleep", "red.global", "red.relaxed.gpu.global")
ATOMIC = ("atom.global", "atom.relaxed.gpu.global", "atom.acq_rel.gpu.global", "ld.acquire.gpu.global")


def is_plain(each: Instruction) -> bool:
    """Whether an instruction only computes, or has to do with global memory only."""
    return not each.op.startswith(_MEET) and (each.base in ARITHMETIC or each.op.startswith(_OF_GLOBAL))


def _is_quiet(code: list[Instruction], back: Instruction) -> bool:
    """Whether what lies between a backward branch and its target only computes and has to do with global memory."""
    inside = code[back.target : back.pc]
    return _may_end(code, back) and all(
        is_plain(i) or i.op.startswith(ATOMIC) or (i.base == "bra" and i.pc < i.target <= back.pc + 1) for i in inside
    )


def _may_end(code: list[Instruction], back: Instruction) -> bool:
    """Whether a loop writes what it goes on by, or leaves by."""
    inside = code[back.target : back.pc + 1]
    written = {name for i in inside for name in i.writes}
    leaves = (i for i in inside if i is back or (i.base == "bra" and not back.target <= i.target <= back.pc))
    return any(i.guard in written for i in leaves) or any(i.op == "ret" for i in inside)


def _stored_by(code: list[Instruction]) -> frozenset[str]:
    """Names from which the address of a store, an atomic or a bulk copy is computed; a map X_map… stands for X too."""
    found = {
        name
        for each in code
        if each.op.startswith((*STORES, "red.", "atom.", "st.shared::any")) or ".global.shared" in each.op
        for arg in each.args
        if arg.startswith("[")
        for name in re.findall(r"[%\w.]+", re.sub(r"\{[^}]*\}", "", arg))
    }
    names = _derived_from(code, found)
    return frozenset(names | {name.partition("_map")[0] for name in names if "_map" in name})


def _refuse_windows(code: list[Instruction], arrays: Collection[str]) -> None:
    """Refuses an access to global memory by an address that is computed of one of shared memory: it would be an access
    to shared memory that nothing sees. What is loaded as at most 32 bits is an index."""
    found, grown = set(arrays), True
    while grown:
        size = len(found)
        kept = any(i.op.startswith("st.shared") and not found.isdisjoint(registers(i.args[1])) for i in code)
        for each in code:
            loads = each.op.startswith("ld.shared") and kept and re.search(r"64$", each.op)
            made = each.base not in ("ld", "setp") and not found.isdisjoint((*each.reads, *each.args[1:]))
            if each.base in ARITHMETIC and (loads or made):
                found |= {*each.writes}
        grown = len(found) > size
    for each in code:
        if ".global" in each.op and each.base in ("ld", "st", "atom", "red", "cp"):
            first = each.base in ("st", "red") or ".global.shared" in each.op
            place = re.sub(r"\{.*", "", each.args[0 if first else 1]) if each.args[not first :] else ""
            if not found.isdisjoint(re.findall(r"[%\w$]+", place)):
                raise Refused(each.line, f"an address of shared memory as one of global memory: {each.text}")


LOADED = "a loaded address"


def _derived_from(code: list[Instruction], names: set[str]) -> frozenset[str]:
    """Names from which addresses are computed. What is loaded may be an index; LOADED: or an address itself."""
    found, grown = set(names), True
    stored = {n for i in code if i.op.startswith(("st.shared", "stmatrix")) for n in registers(i.args[1])}
    while grown:
        size = len(found)
        for each in code:
            if each.base not in ARITHMETIC or found.isdisjoint(each.writes):
                continue
            if each.op.startswith("ld.") and not each.op.startswith("ld.param."):
                found |= {LOADED} if not re.search(r"\.[busf](?:8|16|32)$", each.op) else set()
            if each.op.startswith("ld.shared"):  # what has been stored there
                found |= stored
            if not re.fullmatch(r"ld\.\w*global.*\.[busf](?:8|16|32)", each.op):
                found |= {name for arg in each.args for name in re.findall(r"[%\w.]+", arg)}
        grown = len(found) > size
    return frozenset(found)


_PLAIN_LOAD = re.compile(r"ld\.(?:param|const|global(?:\.nc)?(?:\.L[12]::\w+)*(?:\.v[24])?)\.[busf]\d+")


def _regions(
    code: list[Instruction], live: list[set[str]], reaching: Mapping[Site, tuple[int, ...]]
) -> dict[int, Region]:
    """Outermost loops that only compute, if nothing that synchronises depends on them or else on what they load."""
    found: dict[int, tuple[int, list[Instruction]]] = {}
    branches = [each for each in code if each.base == "bra"]
    for back in sorted((b for b in branches if b.target <= b.pc), key=lambda b: b.target - b.pc):
        head, end = back.target, back.pc + 1
        inside = code[head:end]
        alone = all(
            head <= b.target <= end if head <= b.pc < end else not head < b.target < end for b in branches
        ) and not any(start <= head < other for start, (other, _) in found.items())
        quiet = all(
            i.base == "bra" or (is_plain(i) and (i.base != "ld" or _PLAIN_LOAD.fullmatch(i.op))) for i in inside
        )
        if alone and quiet and all(_may_end(code, b) for b in inside if b.base == "bra" and b.target <= b.pc):
            found[head] = end, inside
    while True:
        needed, sites = _needed(code, (), found, reaching)
        kept = {head: each for head, each in found.items() if _is_passed(*each, sites)}
        if len(kept) == len(found):
            return {head: _region(head, *each, code, live, needed) for head, each in found.items()}
        found = kept


def _is_passed(end: int, inside: list[Instruction], needed: frozenset[Site]) -> bool:
    """Whether a loop leaves nothing that is needed, or else something that is loaded."""
    outputs = any((i.pc, name) in needed for i in inside for name in i.writes)
    return not outputs or any(i.op.startswith("ld.global") and (i.pc, n) in needed for i in inside for n in i.writes)


def _region(
    head: int,
    end: int,
    inside: list[Instruction],
    code: list[Instruction],
    live: list[set[str]],
    needed: frozenset[str],
) -> Region:
    """Its text is that of the instructions that matter, with names in the order in which they come: so that two that
    compute the same of the same are known to."""
    numbers: dict[str, int] = {}

    def numbered(text: str) -> str:
        return REGISTER.sub(lambda match: f"%{numbers.setdefault(match[0], len(numbers))}", text)

    kept = [i for i in inside if i.base == "bra" or not needed.isdisjoint(i.writes)]
    places = {i.pc: n for n, i in enumerate(kept)}
    places[end] = len(kept)
    lines = []
    for i in kept:
        args = f"to {places[min(pc for pc in places if pc >= i.target)]}" if i.base == "bra" else ", ".join(i.args)
        lines.append(numbered(f"{i.negated} {i.guard} {i.op} {args}"))
    # What is written on some ways only may be what it was before.
    read = live[head] & {name for i in kept for name in (*i.reads, *i.writes)}
    addresses = {n for i in kept if i.base == "ld" for arg in i.args[1:] for n in re.findall(r"[%\w.]+", arg)}
    return Region(
        end,
        tuple(sorted(read, key=lambda name: numbers[name])),
        {name: numbers.get(name, -1) for i in inside for name in i.writes},
        _derived_from(code, addresses),
        "; ".join(lines),
    )


def _is_left(inside: list[Instruction]) -> bool:
    """Whether something within a loop, but for the branch at its end, leads out of it."""
    around = range(inside[0].pc, inside[-1].pc + 2) if inside else range(0)
    return any(i.base == "ret" or (i.base == "bra" and i.target not in around) for i in inside)


def _loops(
    code: list[Instruction], regions: Mapping[int, Region]
) -> tuple[tuple[Loop, ...], frozenset[int], frozenset[int], dict[int, str]]:
    """Counted loops, and the backward branches of others, those that are quiet first; a backward branch that belongs to
    a wait is none. Those whose rounds are counted because they are told their end (loops/told.py) are among both. Other
    ones whose test hangs on shared memory may hold no counted loop, else they are refused. All others are stepped: with
    the reason why they are not counted, for when the test is not a number that is known."""
    out, spins, told, whiles, stepped = [], set[int](), set[int](), {}, {}
    for each in code:
        if each.base != "bra" or each.target > each.pc:
            continue
        if not each.guard and not _is_left(code[each.target : each.pc]):
            raise Refused(each.line, f"a loop with no way out: {each.text}")
        if any(head <= each.pc < region.end for head, region in regions.items()):
            spins.add(each.pc)
            continue
        if is_wait(code, each.target) and each.pc == each.target + 1:
            continue
        if code[each.target].base == "~round":
            out.append(Loop(each.target, each.pc, code[each.target].args[0], "", 1))
            told.add(each.pc)
            continue
        try:
            out.append(_counted(code, each))
        except Refused as refused:
            if _is_quiet(code, each):
                spins.add(each.pc)
            elif not _is_told(code, each):
                stepped[each.pc] = refused.reason
            else:
                whiles[each.pc] = each.target, refused
    for pc, (target, why) in whiles.items():
        if any(target <= loop.back and loop.head <= pc for loop in out):
            raise why
    counters = [each.counter for each in out]
    if len(set(counters)) != len(counters):
        raise Refused(0, "one counter of two loops")
    return tuple(out), frozenset(spins), frozenset(told | whiles.keys()), stepped


def _is_told(code: list[Instruction], back: Instruction) -> bool:
    """Whether the test of a loop hangs on what the loop loads from shared memory."""
    inside, names = code[back.target : back.pc], {back.guard}
    for _ in inside:
        names |= {name for i in inside if not names.isdisjoint(i.writes) for name in i.reads}
    return any(i.op.startswith("ld.shared") and not names.isdisjoint(i.writes) for i in inside)


def _counted(code: list[Instruction], each: Instruction) -> Loop:
    """The loop of a backward branch, or Refused."""
    inside = code[each.target : each.pc]
    tests = [i for i in inside if each.guard in i.writes]
    if each.negated or not tests or not re.fullmatch(r"setp\.lt\.[su]32", tests[-1].op) or tests[-1].guard:
        raise Refused(each.line, f"a loop that is not counted: {each.text}")
    counter, bound = tests[-1].args[1:3]
    made = [i for i in inside if counter in i.writes]
    if len(made) == 1 and made[0].op.startswith("add.") and made[0].args[1] != counter and not made[0].guard:
        counter = made[0].args[1]  # the test is of the counter plus a constant
    steps = [i for i in inside if counter in i.writes]
    grows = len(steps) == 1 and re.fullmatch(r"add\.[su]32", steps[0].op) and steps[0].args[1] == counter
    if not grows or steps[0].guard or not re.fullmatch(r"[1-9]\d*", steps[0].args[2]):
        raise Refused(each.line, f"a loop whose counter {counter} does not grow by a constant")
    if any(bound in i.writes for i in inside):
        raise Refused(each.line, f"a loop whose bound {bound} changes")
    return Loop(each.target, each.pc, counter, bound, int(steps[0].args[2]))


DRAW = re.compile(r"atom(?:\.relaxed\.cta)?\.shared(?:::cta)?\.add\.[us]32")  # whose results tickets.py knows


def data_operands(each: Instruction) -> tuple[int, ...]:
    """Operands of an event whose values do not matter: what is stored, products' registers, coordinates."""
    if each.base in ("st", "stmatrix"):
        return (1,)
    if each.base in ("ld", "ldmatrix"):
        return (0,)
    if DRAW.fullmatch(each.op):
        return ()  # what is added tells which numbers it gives
    if each.base in ("atom", "red") and ".shared" in each.op:
        return tuple(range(2 if each.base == "atom" else 1, len(each.args)))
    if each.op.startswith("cp.async.c") and len(each.args) > 1:
        return (1, 3)
    if each.op.startswith(("cp.async.bulk.shared::", "cp.async.bulk.prefetch")):
        return (1,)
    if each.op.startswith(("cp.async.bulk.global.", "cp.reduce.async.bulk.global.")):
        return (0,)
    if each.op.startswith("wgmma.mma_async"):
        return (0, *((1,) if each.args[1].startswith("{") else ()), *range(3, len(each.args)))
    return ()


_OF_LANES = ("elect", "shfl", "vote", "redux", "match")  # their last operand says which lanes take part
_UNSEEN = (*STORES, "prefetch", "red.", "atom.")  # global memory is not looked at


def _is_unseen(each: Instruction) -> bool:
    return each.op.startswith(_UNSEEN) and ".shared" not in each.op


Site: TypeAlias = tuple[int, str]  # an instruction, and a register that it writes or reads


def _reaching(code: list[Instruction], successors: list[tuple[int, ...]]) -> dict[Site, tuple[int, ...]]:
    """For each read of a register, the instructions whose write of it may reach it."""
    sites = [(each.pc, name) for each in code for name in each.writes]
    number = {site: 1 << k for k, site in enumerate(sites)}
    of_name: dict[str, int] = {}
    for site, bit in number.items():
        of_name[site[1]] = of_name.get(site[1], 0) | bit
    made = [sum(number[each.pc, name] for name in set(each.writes)) for each in code]
    gone = [0 if each.guard else sum(of_name[name] for name in set(each.writes)) for each in code]
    before = [0] * len(code)
    todo = [0]
    reached = {0}
    while todo:
        n = todo.pop()
        out = (before[n] & ~gone[n]) | made[n]
        for behind in successors[n]:
            if behind < len(code) and (out & ~before[behind] or behind not in reached):
                before[behind] |= out
                reached.add(behind)
                todo.append(behind)
    found: dict[Site, tuple[int, ...]] = {}
    for each in code:
        for name in each.reads:
            met, places = before[each.pc] & of_name.get(name, 0), []
            while met:
                low = met & -met
                places.append(sites[low.bit_length() - 1][0])
                met ^= low
            found[each.pc, name] = tuple(places)
    return found


def _needed(
    code: list[Instruction],
    loops: tuple[Loop, ...],
    regions: Mapping[int, tuple[int, list[Instruction]]],
    reaching: Mapping[Site, tuple[int, ...]],
) -> tuple[frozenset[str], frozenset[Site]]:
    """Registers on whose values events, branches and guards depend, and where these are written; the branches of a
    region only if what it leaves is needed."""
    within = {i.pc: head for head, (_, inside) in regions.items() for i in inside}
    todo: list[Site] = [(loop.back, code[loop.back].guard) for loop in loops]
    for loop in loops:
        inside = code[loop.head : loop.back]
        todo += [(i.pc, name) for i in inside for name in (loop.counter, loop.bound) if name in i.reads]
    for each in code:
        if (each.base in EVENTS or each.op.startswith("ld.shared")) and each.pc not in within:
            skipped = data_operands(each)
            for n, arg in enumerate(each.args):
                if n not in skipped and not _is_unseen(each):
                    arg = re.sub(r"(\[%\w+), *\{[^}]*\}", r"\1", arg)
                    todo += [(each.pc, name) for name in registers(arg)]
            if each.guard and not _is_unseen(each):
                todo.append((each.pc, each.guard))
        if each.base in (*_OF_LANES, "mma") and each.args:
            masks = registers(each.args[-1]) if each.base in _OF_LANES else ()
            todo += [(each.pc, name) for name in (*masks, each.guard) if name]
    if any(DRAW.fullmatch(each.op) for each in code):  # and where counters begin
        for each in code:
            if each.op.startswith("st.shared.") and each.args[1].startswith("%"):
                made = [code[pc] for pc in reaching.get((each.pc, each.args[1]), ())]
                if made and all(i.base == "mov" and INTEGER.fullmatch(i.args[1]) for i in made):
                    todo.append((each.pc, each.args[1]))
    rounds = any(each.base == "~round" for each in code)  # what these are told may be computed, then stored
    needed: set[Site] = set()
    names = {name for loop in loops for name in (loop.counter, loop.bound)}
    entered: set[int] = set()
    while todo:
        at, name = todo.pop()
        names.add(name)
        for pc in reaching.get((at, name), ()):
            if (pc, name) in needed:
                continue
            needed.add((pc, name))
            if rounds and re.fullmatch(r"ld\.shared(?:::cta)?\.[bsu]32", code[pc].op):
                stores, rounds = (i for i in code if re.fullmatch(r"st\.shared(?:::cta)?\.[bsu]32", i.op)), False
                todo += [(i.pc, i.args[1]) for i in stores if i.args[1].startswith("%")]
            if code[pc].base in ARITHMETIC:
                todo += [(pc, read) for read in code[pc].reads]
            elif code[pc].guard:  # an atomic operation on global memory: which lanes have what it gives
                todo.append((pc, code[pc].guard))
            head = within.get(pc)
            if head is not None and head not in entered:
                entered.add(head)
                todo += [(i.pc, i.guard) for i in regions[head][1] if i.base == "bra" and i.guard]
    return frozenset(names), frozenset(needed)


def _next_kept(code: list[Instruction], needed: frozenset[str]) -> tuple[int, ...]:
    """Skips arithmetic that nothing depends on; registers of products are kept, for their fences, and what lanes of a
    warp must come to together."""
    products: set[str] = set()
    for each in code:
        if each.op.startswith("wgmma.mma_async"):
            products |= set(registers(each.args[0]))
            if each.args[1].startswith("{"):
                products |= set(registers(each.args[1]))
    targets = {each.target for each in code} | {each.pc + 1 for each in code if 0 <= each.target <= each.pc}
    out = list(range(len(code) + 1))
    for each in reversed(code):
        touched = {*each.writes, *each.reads}
        idle = each.base in ARITHMETIC and not each.op.startswith((*_OF_LANES, "mma", "ld.shared"))
        if idle and each.pc not in targets and needed.isdisjoint(each.writes) and products.isdisjoint(touched):
            out[each.pc] = out[each.pc + 1]
    return tuple(out)


def wide(each: Instruction) -> tuple[str, ...]:
    """Registers of an instruction that may be of 64 bits."""
    if each.base == "cvt":
        types = each.op.split(".")
        return (*(each.writes if "64" in types[-2] else ()), *(each.reads if "64" in types[-1] else ()))
    return (*each.writes, *each.reads) if re.search(r"\.[busf]64\b|\.wide\.", each.op) else ()
