"""Random kernels of thread IR that mix generic and asynchronous accesses to a few shared buffers.

128 threads; each version of a buffer is 2048 bytes, 16 for each thread; in a loop, its index says which version. The
scalar parameter %n decides branches and trip counts, each by bits of its own, so that paths are independent. A load
by TMA completes on a barrier word of its own in every iteration: all wait for phase 0.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

ROUNDS = 3  # iterations of a loop at most
_DESCRIPTOR = (1 << 16 | 16 << 32 | 3 << 62) - (1 << 64)
_AT = "address_of = (0,), offsets = (0,)"
_HEAD = """
  %tid = special {register = "tid.x"}
  %lead = cmp %tid, 0 {predicate = "eq"}
  %byte = mul %tid, 16
  %wide = cast %byte {to = i64}
  %nothing = mul %n, 0
  %v = pick 1.0 {indices = (0 * 4,)}
  %out = global_address %O
  %to = add %out, %wide
  %in = global_address %I
  %from = add %in, %wide"""


class Writer:
    """`bits`: how many of %n's are taken; `loops`: the indices of those around."""

    def __init__(self, random: Random, buffers: int, versions: int = 1) -> None:
        self.random, self.versions = random, versions
        self.names = [f"S{i}" for i in range(buffers)]
        self.lines: list[str] = []
        self.head: list[str] = []
        self.counts: list[int] = []  # arrivals that each barrier word waits for
        self.bits = self.count = 0
        self.meeting = True  # whether all threads may meet
        self.loops: list[str] = []

    def put(self, line: str) -> None:
        self.lines.append(line)

    def fresh(self) -> int:
        self.count += 1
        return self.count

    def any(self) -> tuple[str, str]:
        """A buffer, and what the names of its addresses begin with."""
        s = self.random.choice(self.names)
        return s, self.version(s) if self.versions > 1 else s

    def version(self, s: str) -> str:
        """The addresses of a version, and its number as a value of that name."""
        k, ahead = self.fresh(), self.random.randrange(self.versions)
        at = f"{s}v{k}"
        if self.loops and self.random.random() < 0.9:
            self.put(f"%ahead{k} = add {self.loops[-1]}, {ahead}")
            self.put(f"%{at}_slot = floormod %ahead{k}, {self.versions}")
        else:
            self.put(f"%{at}_slot = add %nothing, {ahead}")
        self.put(f"%{at}_by = mul %{at}_slot, 2048")
        self.put(f"%{at}_s = add %{s}_s, %{at}_by")
        self.lines += _addresses(at)
        return at

    def slot(self, at: str, name: str = "slot") -> str:
        return f", {name} = %{at}_slot" if self.versions > 1 else ""

    # Accesses --------------------------------------------------------------------------------------------------------

    def store(self) -> None:
        s, at = self.any()
        self.put(f'store_mem %{at}_mine, %v, %{s}{self.slot(at)} {{space = "shared", width = 4, {_AT}}}')

    def load(self) -> None:
        (s, at), k = self.any(), self.fresh()
        whose = self.random.choice(["mine", "other"])
        how = f'{{space = "shared", dtype = f32, count = 4, width = 4, {_AT}}}'
        self.put(f"%x{k} = load_mem %{at}_{whose}, %{s}{self.slot(at)} {how}")
        self.put(f"%y{k} = pick %x{k} {{indices = (0,)}}")
        self.put(f'atomic_mem %to, %y{k}, %O {{space = "global", kind = "add", returns = false, {_AT}}}')

    def one_stores(self) -> None:
        s, at = self.any()
        self.put("if %lead then {")
        self.put(f'store_mem %{at}_mine, %v, %{s}{self.slot(at)} {{space = "shared", width = 4, {_AT}}}')
        self.put("} orelse {\n}")

    def cp_async(self) -> None:
        (s, at), k = self.any(), self.fresh()
        of = "dst_of = (0,), dst_offsets = (0,), src_of = (0,), src_offsets = (0,)"
        self.put(f"%copy{k} = cp_async %{at}_mine, %from, %{s}{self.slot(at, 'dst_slot')}, %I {{bytes = 16, {of}}}")
        self.put(f"%group{k} = join %copy{k}")
        self.put(f"wait %group{k}")

    def wgmma(self) -> None:
        (s, at), k = self.any(), self.fresh()
        what = "dtypes = (bf16, bf16), into = f32, n = 8, k = 16, a_offsets = (0,), b_offsets = (0,)"
        self.put(f"%c{k}, %m{k} = wgmma %{at}_d, %{at}_d, [%{s}] {{{what}}}")
        self.put(f"%r{k} = await %c{k}, %m{k}")

    def tma_load(self, predicate: str = "%lead") -> str:
        """Issues it; the address of the word to wait at."""
        (s, at), word = self.any(), self.word()
        self.put(f"mbarrier_expect {word}, %ring, predicate = {predicate} {{bytes = 2048}}")
        slot = f"%{at}_slot" if self.versions > 1 else "0"
        more = f'%ring, tensor = %A, predicate = {predicate} {{map = "A_map"}}'
        self.put(f"tma_load %{at}_s, {word}, [0, 0], %{s}, {slot}, {more}")
        return word

    def load_and_wait(self) -> None:
        self.put(f"mbarrier_wait {self.tma_load()}, %ring, 0")

    def tma_store(self, predicate: str = "%lead", finish: bool = False) -> None:
        (s, at), k = self.any(), self.fresh()
        more = f'predicate = {predicate} {{map = "C_map"}}'
        self.put(f"%put{k} = tma_store %{at}_s, [0, 0], %{s}, %C{self.slot(at)}, {more}")
        if finish or self.random.random() < 0.7:
            self.put(f"%done{k} = join %put{k}")
            self.put(f"wait %done{k}")

    def word(self, count: int = 1) -> str:
        """The address of a barrier word that no other operation uses, in each iteration another one."""
        k = self.fresh()
        target = self.lines if self.loops else self.head
        at, size = str(8 * len(self.counts)), 1
        for index in reversed(self.loops):
            n = self.fresh()
            target.append(f"%w{n} = mul {index}, {8 * size}")
            target.append(f"%a{n} = add %w{n}, {at}")
            at, size = f"%a{n}", size * ROUNDS
        self.counts += [count] * size
        target.append(f"%bar{k} = add %bars, {at}")
        return f"%bar{k}"

    def fence(self) -> None:
        self.put(f'proxy_fence {{space = "{self.random.choice(["shared", "shared", "any", "global"])}"}}')

    def barrier(self) -> None:
        self.put("barrier")

    # Control flow ----------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        plain = [self.store, self.store, self.load, self.one_stores, self.cp_async, self.wgmma, self.load_and_wait]
        plain += [self.tma_store, self.tma_store, *([self.barrier] if self.meeting else [])]
        if self.random.random() < 0.1:
            plain.append(self.fence)
        choice = self.random.random()
        if depth and choice < 0.2:
            self.loop(depth)
        elif depth and choice < 0.4:
            self.branch(depth)
        else:
            self.random.choice(plain)()

    def block(self, depth: int, most: int) -> None:
        for _ in range(self.random.randint(1, most)):
            self.statement(depth)

    def loop(self, depth: int) -> None:
        k = self.fresh()
        if self.random.random() < 0.3:
            bound = str(self.random.randint(1, ROUNDS))
        else:
            self.put(f"%t{k} = shr %n, {self.bits}")
            self.put(f"%trips{k} = and %t{k}, 3")
            self.put(f"%most{k} = min %trips{k}, {ROUNDS}")
            bound = f"%most{k}"
            self.bits += 2
        self.put(f"for 0, {bound}, 1 (%k{k}: i32) {{")
        self.loops.append(f"%k{k}")
        self.block(depth - 1, 4)
        self.loops.pop()
        self.put("}")

    def branch(self, depth: int) -> None:
        k = self.fresh()
        at = str(self.bits)
        for index in self.loops:  # in each iteration another bit
            n = self.fresh()
            self.put(f"%n{n} = add {index}, {at}")
            at = f"%n{n}"
        self.bits += 1 + (ROUNDS - 1) * len(self.loops)
        self.put(f"%b{k} = shr %n, {at}")
        self.put(f"%bit{k} = and %b{k}, 1")
        self.put(f'%p{k} = cmp %bit{k}, 1 {{predicate = "eq"}}')
        self.put(f"if %p{k} then {{")
        self.block(depth - 1, 3)
        self.put("} orelse {")
        if self.random.random() < 0.5:
            self.block(depth - 1, 3)
        self.put("}")

    # Roles -----------------------------------------------------------------------------------------------------------

    def roles(self) -> None:
        """Consumers and a producer warp, alternating; each hands over by arriving at a word."""
        producer: list[str] = []
        consumer: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            there = self.word(128)
            consumer += self.part(lambda: self.block(1, 3))
            consumer.append(f"mbarrier_arrive {there}, %ring")
            producer.append(f"mbarrier_wait {there}, %ring, 0")
            back: list[str] = []
            producer += self.part(lambda back=back: back.append(self.produce()))  # type: ignore[misc]
            consumer += [f"mbarrier_wait {word}, %ring, 0" for word in back]
        consumer += self.part(lambda: self.block(1, 2))
        self.put('%warp = warp_index\n%ahead = cmp %warp, 4 {predicate = "ge"}')
        self.put("by_role %ahead {teams = ((0, none), (1, 128))} then {")
        self.put('%one = cmp %warp, 4 {predicate = "eq"}\nif %one then {')
        self.put("%elected = elect")
        self.lines += producer
        self.put("} orelse {\n}\n} orelse {")
        self.lines += consumer
        self.put("}")

    def part(self, write: Callable[[], None]) -> list[str]:
        outer, self.lines = self.lines, []
        write()
        part, self.lines = self.lines, outer
        return part

    def produce(self) -> str:
        """One copy by the producer; where its end is known."""
        if self.random.random() < 0.5:
            return self.tma_load("%elected")
        self.tma_store("%elected", finish=True)
        word = self.word()
        self.put(f"mbarrier_arrive {word}, %ring, predicate = %elected")
        return word

    # The kernel ------------------------------------------------------------------------------------------------------

    def text(self, attrs: str = "") -> str:
        """The kernel around what has been written."""
        maps = '(("A_map", "A", (16, 32), 0), ("C_map", "C", (16, 32), 0))'
        tensors = "%A: tensor<16x32xf32>, %C: tensor<16x32xf32>, %I: tensor<512xf32>, %O: tensor<512xf32>"
        lines = [f"thread kernel @k({tensors}, %n: i32) attrs {{threads = 128, tensor_maps = {maps}{attrs}}} {{", _HEAD]
        for s in self.names:
            versions = f"{self.versions} versions x " if self.versions > 1 else ""
            lines += [f"%{s} = alloc {{type_ = shared<{versions}16x32xf32>}}", f"%{s}_s = buffer_address %{s}"]
            lines += _addresses(s)
        lines += [f"%ring = alloc {{type_ = shared<{max(1, len(self.counts))}xu64>}}", "%bars = buffer_address %ring"]
        lines += ["if %lead then {"]
        for number, count in enumerate(self.counts):
            lines += [f"%i{number} = add %bars, {8 * number}", f"mbarrier_init %i{number}, %ring {{count = {count}}}"]
        lines += ["mbarrier_init_fence", "} orelse {", "}", "barrier", *self.head, *self.lines, "}"]
        return "\n".join(lines)


def _addresses(at: str) -> list[str]:
    """This thread's place, another one's, and the descriptor, of what begins at `at`_s."""
    return [
        f"%{at}_mine = add %{at}_s, %byte",
        f"%{at}_other = xor %{at}_mine, 1008",
        f"%{at}_low = and %{at}_s, 262143",
        f"%{at}_high = shr %{at}_low, 4",
        f"%{at}_wide = cast %{at}_high {{to = i64}}",
        f"%{at}_d = or %{at}_wide, {_DESCRIPTOR}:i64",
    ]


def plain(seed: int, buffers: int = 2) -> tuple[str, int]:
    """A kernel whose threads all do the same, and how many bits of %n it looks at."""
    writer = Writer(Random(seed), buffers)
    while len(writer.lines) < 30:
        writer.statement(2)
    return writer.text(), writer.bits


def versioned(seed: int) -> tuple[str, int]:
    """As `plain`, with buffers of two or three versions."""
    random = Random(seed)
    writer = Writer(random, 1, random.choice([2, 3]))
    while len(writer.lines) < 80:
        writer.statement(2)
    return writer.text(), writer.bits


def with_roles(seed: int, buffers: int = 2) -> tuple[str, int]:
    """A kernel of consumers and a producer."""
    writer = Writer(Random(seed), buffers)
    writer.meeting = False
    if seed % 2:
        writer.one_stores()
    writer.roles()
    return writer.text(", producer_threads = 128"), writer.bits
