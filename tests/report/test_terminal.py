"""The short table fits a terminal and says every number with its n and interval."""

import io

from rich.console import Console

from mlm_consistency.report import print_summary


def printed(summary, **settings) -> str:
    stream = io.StringIO()
    print_summary(summary, Console(file=stream, **settings))
    return stream.getvalue()


def test_fits_eighty_columns_and_cuts_nothing(summary):
    text = printed(summary, width=80)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_holds_each_conditional_ensemble_and_the_disagreement(summary):
    text = printed(summary, width=100)
    for task in summary["tasks"].values():
        for name in task["conditionals"]:
            assert name in text
    for name in ("max (the paper’s)", "vote", "disagreement", "95 % interval", "p = "):
        assert name in text


def test_is_plain_text_where_there_is_no_terminal(summary, capsys):
    print_summary(summary)
    assert "\x1b" not in capsys.readouterr().out
