"""The line that says how far a run is."""

from __future__ import annotations

from mlm_consistency.cli.progress import Progress


def test_before_anything_is_done_no_time_is_promised(capsys, monkeypatch):
    monkeypatch.setattr("mlm_consistency.cli.progress.LINE_EVERY", 0.0)
    progress = Progress("scoring", 10)
    progress.advance(0)
    progress.advance(5)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "scoring: 0/10 examples, 0.0/s"
    assert second.endswith(" s left")
    assert "nan" not in second
