"""Proofs of synchronisation from PTX text: no race, no missing wait or proxy fence, no deadlock, for every schedule and
every trip count (docs/proof.md).

`reading` splits text into statements, `loops` brings control flow into the forms that are known, `butterflies` finds
what warps reduce, `text` parses. `arithmetic` has the values of registers and what operations compute of them; `events`
are what instructions do to shared memory and barriers; `memory` holds what is known complete; `barriers` the rules A, W
and L. `questions` is what a launch is asked, and what its answers tell (`launches`); `registers`, `products`,
`branches`, `tickets`, `divergence` and `semantics` execute one instruction on a `state`, with `shortcuts` for what is
executed as one and `constants` for what a text says of counters. `explore` runs the text until the state repeats;
`certificate` writes down what it found, in `encoding`, for `check`; `answer` says it to users. Nothing here imports the
compiler or the simulators.
"""

from minitile.proof.answer import Answer, answer
from minitile.proof.certificate import certificate
from minitile.proof.check import check
from minitile.proof.explore import Proof, prove
from minitile.proof.text import Fault, Launch, Refused

__all__ = ["Answer", "Fault", "Launch", "Proof", "Refused", "answer", "certificate", "check", "prove"]
