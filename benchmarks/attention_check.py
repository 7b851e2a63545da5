"""mt.ops.attention on the GPU against float64: the forms that attention_bars.py times, at lengths that no tile divides.

    PYTHONPATH=. python benchmarks/attention_check.py

Results go to tensors that were NaN before, between rows that must stay NaN. Queries that see no key must have zeros.
The exit code is 1 where something is wrong.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import contest

GUARD = 8  # rows behind a head's results
HANGS = 20.0  # seconds of a form
BOUND = 4e-3  # relative, of the norms: weights and result are rounded to bf16, 2^-9 each at most
ELEMENT = 2.5 * 2.0**-8  # of an element, beside the greatest one or 1
DIMS = (64, 64), (96, 96), (128, 128), (192, 128), (256, 256)


@dataclass(frozen=True)
class Form:
    """q is (b, h, s, d), k (b, of_k, n, d), v (b, of_k, n, e). growth: None is the chosen plan's."""

    s: int
    n: int
    d: int
    e: int
    causal: bool
    h: int = 3
    of_k: int = 3
    b: int = 2
    growth: float | None = None

    def __str__(self) -> str:
        words = (
            f"{self.b}x{self.h}/{self.of_k}x{self.s}x{self.n}x{self.d}/{self.e}",
            "causal" if self.causal else "full",
        )
        return " ".join(words) + (f" growth {self.growth:g}" if self.growth is not None else "")


def forms() -> Iterator[Form]:
    for d, e in DIMS:
        yield Form(1000, 1000, d, e, True)
        yield Form(4097, 4097, d, e, False, h=1, of_k=1, b=1)
    for d in 64, 128:
        for causal in False, True:
            yield Form(1, 1, d, d, causal)
            yield Form(17, 17, d, d, causal)
        yield Form(4097, 4097, d, d, True, h=1, of_k=1, b=1)
        yield Form(300, 0, d, d, False)
        yield Form(300, 100, d, d, True)  # the first 200 queries see no key
        yield Form(1, 4097, d, d, True)
    yield Form(1000, 1000, 128, 128, True, h=16, of_k=2)
    for causal in False, True:
        yield Form(1000, 1000, 128, 128, causal, growth=8.0)


def failures() -> list[str]:
    """What is wrong, by form."""
    found: list[str] = []
    for form in forms():
        try:
            with contest.watched(str(form), HANGS):
                wrong = check(form)
        except Exception as error:
            wrong = contest.short(error)
        if wrong:
            found.append(f"{form}: {wrong}")
    return found


def check(form: Form) -> str:
    """What is wrong with a form; empty where nothing is."""
    import torch

    import minitile as mt

    torch.manual_seed(0)
    sizes = (form.h, form.s, form.d), (form.of_k, form.n, form.d), (form.of_k, form.n, form.e)
    q, k, v = (torch.randn(form.b, *size, device="cuda", dtype=torch.bfloat16) for size in sizes)
    room = torch.full((form.b, form.h, form.s + GUARD, form.e), math.nan, device="cuda", dtype=torch.bfloat16)
    plan = None
    if form.growth is not None:
        plan = replace(mt.ops.attention_plan_for(q, k, v, layout="bhsd", causal=form.causal), growth=form.growth)
    out = mt.ops.attention(q, k, v, causal=form.causal, layout="bhsd", out=room[:, :, : form.s], plan=plan)
    wanted = exact(form, q, k, v)
    if not bool(room[:, :, form.s :].isnan().all()):
        return "rows behind the result were written"
    found = out.double()
    if bool(found.isnan().any()):
        return f"{int(found.isnan().sum())} elements are NaN"
    blind = max(0, form.s - form.n) if form.causal else form.s * (form.n == 0)
    if bool(found[:, :, :blind].any()):
        return "queries that see no key have no zeros"
    largest = max(1.0, float(wanted.abs().max()))
    norms = float((found - wanted).norm()), float(wanted.norm())
    element = float((found - wanted).abs().max())
    if norms[0] > BOUND * norms[1] or element > ELEMENT * largest:
        return f"the error is {norms[0]:.2e} of {norms[1]:.2e}, {element:.2e} of an element"
    return ""


def exact(form: Form, q: Any, k: Any, v: Any) -> Any:
    import torch

    k, v = (x.double().repeat_interleave(form.h // form.of_k, 1) for x in (k, v))
    scores = q.double() @ k.transpose(2, 3) / math.sqrt(form.d)
    if form.causal:
        places = torch.arange(form.s, device=q.device)[:, None] + form.n - form.s
        scores = scores.masked_fill(torch.arange(form.n, device=q.device)[None] > places, -math.inf)
    return torch.softmax(scores, -1).nan_to_num(0.0) @ v


def summary(found: list[str]) -> str:
    return "\n".join([*found, f"attention: {len(list(forms()))} forms, {len(found)} wrong"])


if __name__ == "__main__":
    wrong = failures()
    print(summary(wrong))
    sys.exit(bool(wrong))
