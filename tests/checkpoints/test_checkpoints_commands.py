"""`mlm-consistency convert` and `mlm-consistency inspect --checkpoint`."""

from __future__ import annotations

import pytest
from checkpoint_forms import CONFIG, random_parameters, write_huggingface, write_t5x

from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.digest import digest
from mlm_consistency.cli.main import main


def test_convert_and_inspect(tmp_path, capsys):
    write_huggingface(tmp_path / "hf", random_parameters(CONFIG), CONFIG)
    out = str(tmp_path / "t5x")
    assert main(["convert", str(tmp_path / "hf"), out, "--to", "t5x"]) == 0
    printed = capsys.readouterr()
    assert f"sha256 of all weights {digest(open_checkpoint(out))}" in printed.out
    assert "converting: " in printed.err

    assert main(["inspect", "--checkpoint", out, "--digest"]) == 0
    printed = capsys.readouterr().out
    assert f"{CONFIG.parameter_count():,} parameters in 37 tensors" in printed
    assert "mlp_activations=('silu', 'linear')" in printed
    assert digest(open_checkpoint(out)) in printed


def test_inspect_says_what_is_wrong(tmp_path, capsys):
    write_t5x(tmp_path / "t5x", random_parameters(CONFIG), CONFIG)
    assert main(["inspect", "--checkpoint", str(tmp_path / "t5x"), "--model=t5_small"]) == 1
    assert "problem: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["convert", "nowhere", "out", "--to", "orbax"], "no such folder"),
        (["inspect", "--checkpoint", "nowhere"], "no such folder"),
    ],
)
def test_mistakes_are_messages(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert message in capsys.readouterr().err
