"""The demo says what it does, and keeps what it compiled."""

from __future__ import annotations

import demo


def test_demo(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "BUILD", tmp_path)
    demo.main()
    (written,) = tmp_path.iterdir()
    assert written.read_text(encoding="utf-8").startswith(".version")
    said = capsys.readouterr().out
    assert str(written) in said
    assert "registers" in said
