"""What is known of a wave's lanes: in which masks (exec, vcc, pairs of scalar registers) one can be.

A lane's *kind* is the set of masks that it is in. `Facts` has the kinds that a lane can be of, and what the wave is
known to have: of each set in `met`, at least one lane.

    s_and_saveexec_b64 s[4:5], vcc      {s}, {s, exec}: exec has only lanes that s has
    s_xor_b64 s[4:5], exec, s[4:5]      {s}, {exec}: each is in one of the two; the wave has a lane of {s} or {exec}
    s_cbranch_execz .L                  taken: only {s} is left, so that the wave has a lane of it
    s_andn2_saveexec_b64 s[6:7], s[4:5]
    s_or_b64 exec, exec, s[6:7]         all are in exec again, which has a lane

What instructions do to masks is Boolean algebra lane by lane, so that kinds are mapped one by one; a mask of which
nothing is known has a lane or not. What is said of a condition of the whole wave (scc, and what a comparison found) is
in `flags`.

Source: "CDNA 3" Instruction Set Architecture, 5 and 12 (S_AND_SAVEEXEC, V_CMP writes 0 for lanes outside of exec).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

Kind = frozenset[str]
Kinds = frozenset[Kind]
KINDS = 32  # so many are told apart


@dataclass(frozen=True, slots=True)
class Facts:
    """`of`: the masks that `kinds` and `met` speak of."""

    of: frozenset[str]
    kinds: Kinds
    met: frozenset[Kinds]
    flags: frozenset[tuple[str, bool]] = frozenset()

    def mapped(self, of: frozenset[str], images: Callable[[Kind], Iterable[Kind]]) -> Facts:
        """Each kind becomes one of several."""
        made = {kind: frozenset(images(kind)) for kind in self.kinds}
        kinds: Kinds = frozenset().union(*made.values())
        met: set[Kinds] = {frozenset().union(*(made[kind] for kind in group)) for group in self.met}
        return Facts(of, kinds, _least(met), self.flags)

    def with_masks(self, names: Iterable[str]) -> Facts:
        """Speaking of these, too."""
        found = self
        for name in sorted(set(names) - self.of):
            found = found.mapped(found.of | {name}, lambda kind, name=name: (kind, kind | {name}))  # type: ignore[misc]
        return found

    def without(self, names: Iterable[str]) -> Facts:
        gone = self.of.intersection(names)
        return self.mapped(self.of - gone, lambda kind: (kind - gone,)) if gone else self

    def assigned(self, values: dict[str, Callable[[Kind], bool | None]]) -> Facts:
        """Masks become what functions of a kind say, None for either."""

        names = frozenset(values)

        def images(kind: Kind) -> list[Kind]:
            made = [kind - names]
            for name, value in values.items():
                result = value(kind)
                outside = made if result is not True else []
                made = outside + [old | {name} for old in made if result is not False]
            return made

        return self.mapped(self.of | names, images)

    def where_none(self, mask: str) -> Facts | None:
        """If the mask has no lane; None if that cannot be."""
        here = self.with_masks((mask,))
        kinds = frozenset(kind for kind in here.kinds if mask not in kind)
        met = {group & kinds for group in here.met}
        return replace(here, kinds=kinds, met=_least(met)) if all(met) else None

    def where_some(self, mask: str) -> Facts | None:
        """If the mask has a lane; None if that cannot be."""
        here = self.with_masks((mask,))
        group = frozenset(kind for kind in here.kinds if mask in kind)
        return replace(here, met=_least({*here.met, group})) if group else None

    def flag(self, name: str) -> bool | None:
        return next((value for key, value in self.flags if key == name), None)

    def flagged(self, name: str, value: bool | None) -> Facts:
        flags = frozenset(one for one in self.flags if one[0] != name)
        return replace(self, flags=flags if value is None else flags | {(name, value)})

    def only(self, names: frozenset[str]) -> Facts:
        """What is said of these; of not too many, so that masks go first that have least to do with exec."""
        found = self.without(self.of - names)
        found = found.without(name for name in found.of - {"exec"} if found._is_free(name))
        while len(found.kinds) > KINDS:
            found = found.without((max(sorted(found.of - {"exec"}), key=found._ways_with_exec),))
        flags = frozenset(one for one in found.flags if one[0] in names)
        return found if flags == found.flags else replace(found, flags=flags)

    def _is_free(self, name: str) -> bool:
        """Whether each lane can as well be in a mask as not."""
        return all(kind ^ {name} in kinds for kinds in (self.kinds, *self.met) for kind in kinds)

    def _ways_with_exec(self, name: str) -> int:
        """In how many of the four ways a lane can be in a mask, or exec, or not."""
        return len({(name in kind, "exec" in kind) for kind in self.kinds})

    def alike(self) -> tuple[tuple[str, bool], ...]:
        """What ways are told apart by: whether exec has a lane; of the other masks, whether exec's lanes are all in it,
        or none is; the flags. Sorted."""
        within = [kind for kind in self.kinds if "exec" in kind]
        found = {("exec", bool(within))} if not within or any(map(_in_exec, self.met)) else set()
        for name in self.of - {"exec"}:
            values = {name in kind for kind in within or self.kinds}
            if len(values) == 1:
                found.add((name, values.pop()))
        return tuple(sorted(self.flags | found))

    def joined(self, other: Facts) -> Facts:
        """What holds in both."""
        of = self.of & other.of
        one, two = self.without(self.of - of), other.without(other.of - of)
        met = {first | second for first in one.met for second in two.met}
        return Facts(of, one.kinds | two.kinds, _least(met), one.flags & two.flags)


_EXEC = frozenset({"exec"})
START = Facts(_EXEC, frozenset({_EXEC, frozenset()}), frozenset({frozenset({_EXEC})}))  # exec has a lane


def _in_exec(group: Kinds) -> bool:
    return all("exec" in kind for kind in group)


def _least(groups: set[Kinds]) -> frozenset[Kinds]:
    """Those that say most: without the ones that others are part of."""
    return frozenset(group for group in groups if not any(other < group for other in groups))
