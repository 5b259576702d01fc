"""Made-up folders of `mlm-consistency bigrams`: random conditionals over short sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from mlm_consistency.analysis.bigrams import preference, read_pairs, summarize_bigrams

HOSTILE = "<script>window.broken = 1</script>"


def made_up_cases(count: int = 40, seed: int = 0, words: int = 2) -> list[dict]:
    """Cases like the command writes; the third sentence holds markup."""
    generator = np.random.default_rng(seed)

    def table(axis: int) -> list:
        values = generator.dirichlet(np.ones(words + 2), words)[:, :words]
        return (values if axis == 1 else values.T).tolist()

    cases = []
    for number in range(count):
        text = f"The cat {HOSTILE if number == 2 else number} sat on a mat."
        start = text.index("sat")
        cases.append(
            {
                "name": f"text.txt:{number + 1}:1-4",
                "subset": True,
                "gold": [0, 0],
                "a_given_b": table(0),
                "b_given_a": table(1),
                "a_masked": table(1)[0],
                "b_masked": table(1)[0],
                "text": text,
                "spans": [[4, 7], [start, start + 3]],
                "words": ["cat", "sat"],
                "distance": 1 + number % 3,
                "entropy": float(generator.uniform(0, 8)),
                "first": ["▁cat", "▁dog", "▁cow"][:words],
                "second": ["▁sat", "▁lay", "▁ran"][:words],
            }
        )
    return cases


def write_bigrams_folder(folder: Path, model: str, **settings) -> Path:
    """tables.json and bigrams.json of made-up cases."""
    folder.mkdir(parents=True, exist_ok=True)
    cases = made_up_cases(**settings)
    pairs = read_pairs(cases)
    counts = {"lines": 50, "pairs": len(cases), "forward_rows": 200, "dropped": {"blank": 10}}
    summary = {
        "schema": 1, "text": "text.txt", "model": model, "counts": counts,
        **summarize_bigrams(pairs),
        "preferences": {"bigram": {"joint_by_order": preference(pairs)}},
    }  # fmt: skip
    (folder / "tables.json").write_text(json.dumps(cases))
    (folder / "bigrams.json").write_text(json.dumps(summary))
    return folder
