"""What people use today, for comparison: torch, one example and conditional at a time, or padded.

Both score the same examples with the same weights through transformers' T5. Only the benchmark
and parity tests use this; torch and transformers are an extra.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlm_consistency.conditionals import EncodedExample, Masked
from mlm_consistency.models.config import T5Config

Scores = list[list[list[np.ndarray] | None]]
PAD = 0


class TorchT5:
    """transformers' T5 with the weights of a parameter tree."""

    def __init__(self, params: Any, config: T5Config, threads: int) -> None:
        """Args:
        params: tree of `models.t5`.
        config: its network.
        threads: for torch.
        """
        import torch
        from transformers import T5ForConditionalGeneration

        from mlm_consistency.checkpoints.convert import save

        torch.set_num_threads(threads)
        self.torch = torch
        with tempfile.TemporaryDirectory() as folder:
            save(params, config, f"{folder}/model", "huggingface")
            self.network = T5ForConditionalGeneration.from_pretrained(f"{folder}/model").eval()

    def log_probs(
        self, encoder: np.ndarray, mask: np.ndarray, copies: Sequence[int], targets: np.ndarray
    ) -> np.ndarray:
        """log p of `targets` [B, T] given encoder rows [E, S], row e copied copies[e] times."""
        torch = self.torch
        with torch.no_grad():
            ids, attend = torch.from_numpy(encoder), torch.from_numpy(mask)
            states = self.network.encoder(input_ids=ids, attention_mask=attend).last_hidden_state
            repeats = torch.as_tensor(copies)
            states = states.repeat_interleave(repeats, dim=0)
            attend = attend.repeat_interleave(repeats, dim=0)
            goal = torch.from_numpy(targets)
            start = torch.full((len(goal), 1), PAD)
            logits = self.network(
                encoder_outputs=(states,),
                attention_mask=attend,
                decoder_input_ids=torch.cat([start, goal[:, :-1]], dim=1),
                use_cache=False,
            ).logits
            picked = logits.log_softmax(-1).gather(-1, goal[..., None])[..., 0]
            return picked.numpy()


def one_at_a_time(model: TorchT5, examples: Sequence[EncodedExample]) -> Scores:
    """Each example and conditional alone: one encoder row, its states copied for the candidates."""
    scores: Scores = []
    for example in examples:
        rows: list[list[np.ndarray] | None] = []
        for masked in example.masked:
            if not isinstance(masked, Masked):
                rows.append(None)
                continue
            encoder = masked.encoder[None].astype(np.int64)
            targets = padded([np.concatenate([masked.prefix, c]) for c in example.candidates])
            got = model.log_probs(encoder, np.ones_like(encoder), [len(targets)], targets)
            rows.append(_answers(got, len(masked.prefix), example))
        scores.append(rows)
    return scores


def batched(model: TorchT5, examples: Sequence[EncodedExample], rows: int = 16) -> Scores:
    """Prompts sorted by length, `rows` at a time, padded; states copied for the candidates."""
    scores: Scores = [[None] * len(example.masked) for example in examples]
    prompts = [
        (masked, i, k)
        for i, example in enumerate(examples)
        for k, masked in enumerate(example.masked)
        if isinstance(masked, Masked)
    ]
    prompts.sort(key=lambda p: (len(p[0].encoder), p[1], p[2]))
    for start in range(0, len(prompts), rows):
        some = prompts[start : start + rows]
        encoder = padded([masked.encoder for masked, _, _ in some])
        lengths = np.array([[len(masked.encoder)] for masked, _, _ in some])
        mask = (np.arange(encoder.shape[1]) < lengths).astype(np.int64)
        copies = [len(examples[i].candidates) for _, i, _ in some]
        targets = padded(
            [np.concatenate([m.prefix, c]) for m, i, _ in some for c in examples[i].candidates]
        )
        got = model.log_probs(encoder, mask, copies, targets)
        first = 0
        for (masked, i, k), count in zip(some, copies, strict=True):
            part = got[first : first + count]
            scores[i][k] = _answers(part, len(masked.prefix), examples[i])
            first += count
    return scores


def padded(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Rows of ids as one int64 array, padded at the right."""
    array = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for number, row in enumerate(rows):
        array[number, : len(row)] = row
    return array


def _answers(values: np.ndarray, prefix: int, example: EncodedExample) -> list[np.ndarray]:
    return [
        row[prefix : prefix + len(candidate)]
        for row, candidate in zip(values, example.candidates, strict=True)
    ]


BASELINES: dict[str, Callable[[TorchT5, Sequence[EncodedExample]], Scores]] = {
    "one_at_a_time": one_at_a_time,
    "batched": batched,
}
