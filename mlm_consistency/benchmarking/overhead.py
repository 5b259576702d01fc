"""What packing costs a large network, by formula: no weights, no device, no text.

    overhead = FLOPs of all steps as packed / FLOPs that are necessary - 1

of the published tasks, whose prompt lengths ship (`scoring.task_lengths`), in the rows that a run
would choose on that device. Computed FLOPs count whole rows and whole attention squares;
necessary ones each distinct token once and the pairs that see each other (`scoring.flops`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mlm_consistency.models.presets import preset
from mlm_consistency.scoring.flops import computed_flops, necessary_flops
from mlm_consistency.scoring.hardware import parse_topology
from mlm_consistency.scoring.schedule import batches_of, run_shape, shards_of, steps_of
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.scoring.task_lengths import load_lengths

TASKS = ("mmlu_ul2", "bbh_ul2", "lambada_ul2")


@dataclasses.dataclass(frozen=True)
class PackingOverhead:
    """One task on one data slot.

    Attributes:
      task: name of the table of lengths.
      steps: batches that the task takes.
      necessary, computed: FLOPs of the whole task, without and with padding.
      encoder_padding, decoder_padding: share of computed tokens and nodes that are padding.
      rows: ((length, rows of a batch), ...) of the encoder.
    """

    task: str
    steps: int
    necessary: float
    computed: float
    encoder_padding: float
    decoder_padding: float
    rows: tuple[tuple[int, int], ...]

    @property
    def overhead(self) -> float:
        """Share by which computed FLOPs exceed necessary ones."""
        return self.computed / self.necessary - 1

    def as_json(self) -> dict[str, Any]:
        """The figures, the overhead among them."""
        return dataclasses.asdict(self) | {"overhead": self.overhead}


def packing_overhead(
    model: str = "ul2_20b",
    tasks: Sequence[str] = TASKS,
    topology: str = "v5e:4x4",
    packing: PackingConfig | None = None,
) -> tuple[PackingOverhead, ...]:
    """The overhead of packing each task by itself, for one data slot.

    Args:
      model: a published size.
      tasks: tables of lengths; see `task_lengths.load_lengths`.
      topology: its device decides row lengths; see `hardware.parse_topology`.
      packing: as `score` gets it; None for the defaults.

    Raises:
      UnknownNameError: for a model, table or device that is not known.
    """
    network, device = preset(model), parse_topology(topology).device
    packing = packing or PackingConfig()
    found = []
    for task in tasks:
        lengths, first = load_lengths(task).prompts()
        shards = shards_of(lengths, first, packing.examples_per_shard)
        shape = run_shape(packing, device, [shards], network)
        steps = steps_of(batches_of([shards], shape), lanes=1, slots=1)
        found.append(
            PackingOverhead(
                task,
                steps,
                necessary_flops(lengths, network).total,
                steps * computed_flops(shape, network).total,
                1 - int(lengths.encoder.sum()) / (steps * shape.encoder_tokens),
                1 - int(lengths.decoder.sum()) / (steps * shape.decoder_tokens),
                shape.rows,
            )
        )
    return tuple(found)
