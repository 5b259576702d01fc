"""Makes golden/: a tiny T5X checkpoint by our writer, and its scores by torch `transformers`.

    PYTHONPATH=. python tests/checkpoints/make_golden.py      (extra `parity`)

The network is a small UL2: gated SiLU, tied, no `decoder_norm.scale` in the checkpoint.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mlm_consistency.checkpoints.convert import convert, save
from mlm_consistency.conditionals import NotApplicable, parse_conditionals
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.t5 import abstract_parameters

GOLDEN = Path(__file__).with_name("golden")
CHECKPOINT = GOLDEN / "checkpoint_0"
SCORES = GOLDEN / "scores.json"
CONFIG = T5Config(
    name="golden",
    vocab_size=64,
    d_model=16,
    num_heads=2,
    head_dim=12,
    mlp_dim=24,
    encoder_layers=2,
    decoder_layers=2,
    mlp_activations=("silu", "linear"),
)
CONDITIONALS = ("baseline", "offset_1", "offset_3", "span_3_5_1", "span_3_4_2")
EOS = 1
# (part of a name, mean, deviation), the first that fits: near to how T5 starts, so that float32
# rounds to far less than the tolerance.
SPREAD = (
    ("scale", 1.0, 0.2),
    ("embedding", 0.0, 1.0),
    ("query", 0.0, 0.1),
    ("", 0.0, 0.25),
)


def sentinel(k: int) -> int:
    """<extra_id_k> of the golden vocabulary."""
    return CONFIG.vocab_size - 1 - k


def golden_parameters() -> Any:
    """Random weights, the last norm's scale ones."""
    import jax

    rng = np.random.default_rng(2301)

    def draw(path: Any, leaf: Any) -> np.ndarray:
        name = jax.tree_util.keystr(path)
        if "decoder_norm" in name:
            return np.ones(leaf.shape, np.float32)
        mean, spread = next((m, s) for key, m, s in SPREAD if key in name)
        return (mean + spread * rng.standard_normal(leaf.shape)).astype(np.float32)

    return jax.tree_util.tree_map_with_path(draw, abstract_parameters(CONFIG))


def questions() -> list[dict[str, Any]]:
    """Prompts and candidates as ids; a short prompt to which spans do not apply among them."""
    rng = np.random.default_rng(68)
    made = []
    for length in (7, 20, 33):
        prompt = rng.integers(2, 55, length).tolist()
        first = rng.integers(2, 55, 3).tolist()
        candidates = [first, [*first[:2], 9], [first[0]], rng.integers(2, 55, 4).tolist()]
        made.append({"prompt": prompt, "candidates": candidates})
    return made


def main() -> None:
    """Writes golden/ anew."""
    import torch
    import transformers

    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        whole, folder = f"{scratch}/whole", f"{scratch}/huggingface"
        save(golden_parameters(), CONFIG, whole, "huggingface")
        config = json.loads(Path(whole, "config.json").read_text())
        config["mlm_consistency_absent"] = ["decoder.decoder_norm.scale"]
        Path(whole, "config.json").write_text(json.dumps(config))
        convert(whole, str(CHECKPOINT), "t5x", CONFIG)
        convert(str(CHECKPOINT), folder, "huggingface", CONFIG)
        model = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    made = questions()
    for question in made:
        prompt = np.asarray(question["prompt"], np.int32)
        question["token_log_probs"] = {}
        for conditional in parse_conditionals(list(CONDITIONALS)):
            layout = conditional.layout(len(prompt))
            if isinstance(layout, NotApplicable):
                question["token_log_probs"][conditional.name] = None
                continue
            encoder = layout.encoder_ids(prompt, sentinel, EOS).tolist()
            prefix = layout.prefix_ids(prompt, sentinel).tolist()
            rows = []
            for candidate in question["candidates"]:
                targets = [*prefix, *candidate]
                with torch.no_grad():
                    logits = model(
                        input_ids=torch.tensor([encoder]),
                        decoder_input_ids=torch.tensor([[0, *targets[:-1]]]),
                    ).logits[0]
                picked = torch.log_softmax(logits.double(), -1)[range(len(targets)), targets]
                rows.append([round(float(x), 7) for x in picked[len(prefix) :]])
            question["token_log_probs"][conditional.name] = rows
    source = f"torch {torch.__version__}, transformers {transformers.__version__}, float32"
    rows_of_text = ",\n".join("  " + json.dumps(question) for question in made)
    head = f' "made_by": {json.dumps(source)},\n "unit": "nats",'
    text = f'{{\n{head}\n "questions": [\n{rows_of_text}\n ]\n}}'
    SCORES.write_text(text + "\n")


if __name__ == "__main__":
    main()
