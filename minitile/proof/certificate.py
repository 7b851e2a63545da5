"""Certificates: what a proof found, as data for JSON, for `check` to check without a search."""

from __future__ import annotations

from typing import Any

from minitile.proof.check import FORMAT, digest, facts
from minitile.proof.encoding import Encoder
from minitile.proof.explore import MOST_SECONDS, MOST_STATES, Proof, closed
from minitile.proof.text import Launch


def certificate(
    text: str, launch: Launch, *, most_states: int = MOST_STATES, seconds: float = MOST_SECONDS
) -> dict[str, Any]:
    """Proves a PTX text for a launch; gives the certificate. Raises Refused."""
    return certified(text, launch, most_states=most_states, seconds=seconds)[1]


def certified(
    text: str, launch: Launch, *, most_states: int = MOST_STATES, seconds: float = MOST_SECONDS
) -> tuple[Proof, dict[str, Any]]:
    """As `certificate`, with what it took."""
    proof, found = closed(text, launch, most_states=most_states, seconds=seconds)
    encoder = Encoder()
    cases = [[encoder(state) for state in case] for case in found.cases]
    return proof, {
        "format": FORMAT,
        "name": proof.name,
        "text": digest(text),
        "launch": facts(launch),
        "moduli": [[encoder(key), modulus] for key, modulus in found.moduli],
        "together": sorted(found.together),
        "lines": list(proof.together),
        "cases": cases,
        "table": encoder.table,
    }


__all__ = ["certificate", "certified"]
