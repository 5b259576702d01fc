"""`t5x.infer` with gin/t5x/score.gin gives the scores of our own loop; import-t5x takes them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlm_consistency as mc
from mlm_consistency.analysis.scores import Scores
from mlm_consistency.api import Question
from mlm_consistency.checkpoints.convert import convert
from mlm_consistency.cli.main import main
from mlm_consistency.records import open_run
from mlm_consistency.tasks import TaskConfig, load_task

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(
        importlib.util.find_spec("t5x") is None,
        reason="T5X is not installed (it is not on PyPI; see the extra `t5x`)",
    ),
]


def test_scores_of_t5x_infer_equal_our_own(tmp_path):
    convert("tiny", str(tmp_path / "checkpoint_0"), "t5x")
    files = [f"--gin_file={name}.gin" for name in ("tiny", "score", "tiny_stories")]
    bindings = [
        f"--gin.CHECKPOINT_PATH='{tmp_path}/checkpoint_0'",
        f"--gin.INFER_OUTPUT_DIR='{tmp_path}/out'",
        "--gin.t5x_tasks.flat_task.limit=3",
        "--gin.utils.DatasetConfig.batch_size=8",  # the last batch is padded
    ]
    places = f"--gin_search_paths={ROOT}/gin/t5x"
    done = subprocess.run(
        [sys.executable, "-m", "t5x.infer", places, *files, *bindings],
        env={**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (scores,) = (tmp_path / "out").glob("*-score.jsonl-00000-of-00001")
    run = str(tmp_path / "run")
    checkpoint = f"--checkpoint_path={tmp_path}/checkpoint_0"
    assert main(["import-t5x", str(scores), run, checkpoint]) == 0

    imported = Scores.from_run(open_run(run), "stories_choice")
    examples = list(load_task(TaskConfig("stories_choice", limit=3)).text_examples())[:3]
    own = mc.load_model("tiny").score_all(
        [Question(e.prompt, e.candidates, e.labels[0], e.id) for e in examples], "mmlu"
    )
    assert imported.applicable.tolist() == own.applicable.tolist()
    for measure in ("sum", "mean"):
        mine, theirs = own.values(measure), imported.values(measure)
        np.testing.assert_allclose(
            theirs[own.applicable], mine[own.applicable], atol=TOLERANCE, rtol=0
        )
