"""The batch shape of a run: row lengths and their mixture, chosen by cost from the lengths.

Short rows make attention cheap, long ones waste less of their ends, and every row length costs
compilation time. The choice weighs them with the FLOPs of the network: a small model on a CPU gets
short rows and d 4096 on a TPU long ones.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from mlm_consistency.errors import ConfigError, ScoringError
from mlm_consistency.models.config import T5Config
from mlm_consistency.scoring.packing import (
    PromptLengths,
    batches_needed,
    fill_decoder_rows,
    pack_rows,
    share_rows,
)
from mlm_consistency.scoring.step import BatchShape

SEVERAL_PROMPTS = 320  # rows may be longer than the longest prompt up to this length
SAMPLE = 4096  # prompts on which the choice of row lengths is tried


@dataclasses.dataclass(frozen=True)
class PackingConfig:
    """How rows are built.

    Attributes:
      max_encoder_length: longest encoder row; longer prompts are refused, and listed.
      max_decoder_length: longest decoder tree of one prompt.
      row_lengths: encoder row lengths to use; empty chooses them by cost.
      max_row_lengths: most row lengths that a batch mixes.
      tokens_per_batch: encoder tokens that one data slot computes in a step.
      memory_length: encoder tokens, about, that share a decoder row.
      length_multiple: row lengths are multiples of it (128 on a TPU).
      examples_per_shard: examples planned and recorded together.
      softmax_flops: cost of one attention weight's softmax and masks, in units of a
        multiply-add pair of the matrix unit; it stands for the hardware.
    """

    max_encoder_length: int = 1024
    max_decoder_length: int = 512
    row_lengths: tuple[int, ...] = ()
    max_row_lengths: int = 3
    tokens_per_batch: int = 8192
    memory_length: int = 2048
    length_multiple: int = 16
    examples_per_shard: int = 256
    softmax_flops: float = 120.0

    def __post_init__(self) -> None:
        if not isinstance(self.row_lengths, tuple | list):
            raise ConfigError(
                "PackingConfig.row_lengths must be lengths like (64, 256), "
                f"got {self.row_lengths!r}"
            )
        object.__setattr__(self, "row_lengths", tuple(self.row_lengths))
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            kind = float | int if field.name == "softmax_flops" else int
            for number in value if field.name == "row_lengths" else (value,):
                if not isinstance(number, kind) or isinstance(number, bool) or number <= 0:
                    raise ConfigError(f"PackingConfig.{field.name} must be positive, got {value!r}")

    @property
    def longest_row(self) -> int:
        """Encoder tokens that a prompt may have: of the longest row that there can be."""
        return min(self.max_encoder_length, max(self.row_lengths, default=self.max_encoder_length))

    @property
    def longest_row_setting(self) -> str:
        """The field that decides `longest_row`."""
        given = self.row_lengths and max(self.row_lengths) < self.max_encoder_length
        return "row_lengths" if given else "max_encoder_length"


def encoder_row_cost(model: T5Config, length: int, softmax_flops: float) -> float:
    """FLOPs of one encoder row of `length` tokens, softmax counted at `softmax_flops` a weight."""
    matrices = 4 * model.d_model * model.joined_kv
    matrices += (len(model.mlp_activations) + 1) * model.d_model * model.mlp_dim
    attention = 4 * length * length * model.joined_kv
    softmax = softmax_flops * length * length * model.num_heads
    return model.encoder_layers * (2 * length * matrices + attention + softmax)


def round_up(value: float, multiple: int) -> int:
    """The least multiple that is at least `value`."""
    return int(-(-value // multiple) * multiple)


Rows = tuple[tuple[int, int], ...]


def proportions(
    rows: dict[int, int], price: dict[int, float], target: float
) -> tuple[float, Rows, int]:
    """How many rows of each length a batch holds, near `target` tokens, at the least cost.

    Args:
      rows: row length -> number of rows in all.
      price: row length -> cost of one row.
      target: wished tokens of a batch.

    Returns:
      (cost, ((length, rows of a batch), ...) ascending, number of batches).
    """
    middle = max(1.0, sum(length * count for length, count in rows.items()) / target)
    tries = {max(1, round(middle * 2**power)) for power in np.linspace(-0.8, 0.8, 65)}
    best: tuple[float, Rows, int] | None = None
    for batches in sorted(tries):
        each = tuple((size, -(-count // batches)) for size, count in sorted(rows.items()))
        cost = batches * sum(price[size] * count for size, count in each)
        # Another batch size than wished costs a little too: memory, or dispatch.
        cost *= 1 + 0.02 * abs(np.log2(batches / middle))
        if best is None or cost < best[0]:
            best = (cost, each, batches)
    assert best is not None
    return best


def round_length(value: float, step: int) -> int:
    """A row length of at least `value`: a multiple of `step`, of twice that beyond 8 steps.

    Long rows of an odd multiple run slower: 368 tokens took as long as 400 on the CPU.
    """
    return round_up(value, step if value <= 8 * step else 2 * step)


def shorter_lengths(top: int, step: int) -> list[int]:
    """Row lengths below `top`, a factor of about sqrt(2) apart."""
    grid = {round_length(top / 2 ** (k / 2), step) for k in range(1, 9)}
    return sorted(length for length in grid if 2 * step <= length < top)


def choose_rows(
    encoder: np.ndarray, model: T5Config, config: PackingConfig, price_of_a_length: float
) -> tuple[Rows, int]:
    """The row lengths and their proportion with the least cost on these prompts.

    Args:
      encoder: tokens of each prompt.
      model, config: as in `choose_shape`.
      price_of_a_length: what each further row length must earn, as a share of the cost.

    Returns:
      ((length, rows of a batch), ...) ascending, and the number of batches.
    """
    step = config.length_multiple
    longest = min(round_length(int(encoder.max()), step), config.max_encoder_length)
    # Where all prompts are short, rows of several of them waste less of their ends.
    several = range(longest, min(4 * longest, SEVERAL_PROMPTS, config.max_encoder_length) + 1, step)
    tops = {round_length(top, step) for top in several} | {longest}
    choices = [
        (*extra, top)
        for top in sorted(tops)
        for count in range(config.max_row_lengths)
        for extra in itertools.combinations(shorter_lengths(top, step), count)
    ]
    # Short prompts leave many choices: they are tried on fewer prompts.
    few = encoder[:: -(-len(encoder) // 2048)] if len(tops) > 1 else encoder
    best: tuple[float, tuple[int, ...]] | None = None
    for lengths in [config.row_lengths] if config.row_lengths else choices:
        cost = rows_for(few, lengths, model, config)[0] * (1 + price_of_a_length * len(lengths))
        if best is None or cost < best[0]:
            best = (cost, lengths)
    assert best is not None
    return rows_for(encoder, best[1], model, config)[1:]


def rows_for(
    encoder: np.ndarray, lengths: Sequence[int], model: T5Config, config: PackingConfig
) -> tuple[float, Rows, int]:
    """`proportions` of rows of these lengths for prompts of `encoder` tokens."""
    rows: dict[int, int] = {}
    for size, _ in pack_rows(encoder, lengths):
        rows[size] = rows.get(size, 0) + 1
    price = {n: encoder_row_cost(model, n, config.softmax_flops) for n in lengths}
    return proportions(rows, price, config.tokens_per_batch)


def choose_shape(
    lengths: PromptLengths, model: T5Config, config: PackingConfig, spare: float = 0.0
) -> BatchShape:
    """The batch shape for prompts of these lengths.

    Args:
      lengths: of the prompts of the run; of many, an even sample decides.
      model: whose FLOPs weigh the choice.
      config: limits and wishes.
      spare: share by which memory, decoder nodes, reads and pairs exceed what the sample needs,
        for others like it.

    Raises:
      ScoringError: if a prompt is longer than the limits.
    """
    check_limits(lengths, config)
    stride = -(-len(lengths) // SAMPLE)
    sample = lengths.take(np.arange(0, len(lengths), stride))
    longest = np.append(sample.encoder, lengths.encoder.max()) if stride > 1 else sample.encoder
    # Each row length is compiled, and other shards will have other proportions than the sample.
    each, batches = choose_rows(longest, model, config, 0.01 + spare / 2)
    tokens = sum(size * count for size, count in each)
    decoder_rows = max(1, round(tokens / config.memory_length))

    def mean(values: np.ndarray) -> int:
        return int(np.ceil(values.sum() / batches / decoder_rows))

    # Rows are filled evenly against their means; what they then hold at most is the shape.
    loose = BatchShape(each, decoder_rows, mean(sample.encoder), mean(sample.decoder), 1, 1)
    rows = pack_rows(longest[: len(sample)], [length for length, _ in each])
    most = np.ones(4, np.int64)
    need = np.stack([sample.encoder, sample.decoder, sample.reads, sample.pairs], axis=1)
    for members in share_rows(rows, sample.decoder, loose, batches_needed(rows, loose)):
        prompts = [prompt for places in members for row in places for prompt in row]
        memory, nodes = fill_level(prompts, sample, loose)
        reads, pairs = need[prompts, 2:].sum(axis=0) if prompts else (0, 0)
        most = np.maximum(most, [memory, nodes, reads, pairs])
    most = np.maximum(most, [lengths.encoder.max(), lengths.decoder.max(), *most[2:]])
    memory, nodes, reads, pairs = most * (1 + spare)
    return BatchShape(
        each,
        decoder_rows,
        round_up(memory, 8),
        round_up(nodes, 4),
        round_up(max(reads, lengths.reads.max()), 8),
        round_up(max(pairs, lengths.pairs.max()), 8),
    )


def quantized(shape: BatchShape) -> BatchShape:
    """A shape at least as large, its sizes rounded up to a few steps, so that similar prompts
    share one compilation."""

    def up(value: int) -> int:
        step = max(8, 1 << max(0, value.bit_length() - 2))
        return round_up(value, step)

    return BatchShape(
        rows=tuple((up(length), count) for length, count in shape.rows),
        decoder_rows=shape.decoder_rows,
        memory_length=up(shape.memory_length),
        decoder_length=up(shape.decoder_length),
        reads=up(shape.reads),
        pairs=up(shape.pairs),
    )


def fill_level(prompts: list[int], lengths: PromptLengths, shape: BatchShape) -> tuple[int, int]:
    """(memory, nodes) that the fullest decoder rows hold when these prompts are spread evenly."""
    roomy = dataclasses.replace(
        shape, memory_length=shape.memory_length << 20, decoder_length=shape.decoder_length << 20
    )
    rows, _ = fill_decoder_rows(prompts, lengths.encoder, lengths.decoder, roomy)
    memory = max((int(lengths.encoder[row].sum()) for row in rows if row), default=0)
    nodes = max((int(lengths.decoder[row].sum()) for row in rows if row), default=0)
    return memory, nodes


def check_limits(lengths: PromptLengths, config: PackingConfig) -> None:
    """Refuses prompts that no row holds.

    Raises:
      ScoringError: with how many there are and the setting to raise.
    """
    for name, values, limit, setting in (
        ("encoder", lengths.encoder, config.longest_row, config.longest_row_setting),
        ("decoder", lengths.decoder, config.max_decoder_length, "max_decoder_length"),
    ):
        over = np.flatnonzero(values > limit)
        if over.size:
            raise ScoringError(
                f"{over.size} prompts are longer than the longest {name} row "
                f"({int(values.max())} tokens at most, {limit} allowed); "
                f"raise PackingConfig.{setting}"
            )
