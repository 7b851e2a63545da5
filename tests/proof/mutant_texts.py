"""Texts that only some rule of the prover tells apart: found by mutants of it that survived all others."""

from __future__ import annotations

TEXTS: list[tuple[str, int]] = []
