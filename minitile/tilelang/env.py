"""`tilelang.env`: folders."""

from __future__ import annotations

import tempfile
from pathlib import Path

TILELANG_CACHE_DIR = str(Path(tempfile.gettempdir()) / "minitile-tilelang")
TILELANG_TMP_DIR = TILELANG_CACHE_DIR
