"""What a checkpoint holds, as a table: for `mlm-consistency inspect --checkpoint`."""

from __future__ import annotations

import dataclasses

from mlm_consistency.checkpoints.architecture import architecture, check_leaves
from mlm_consistency.checkpoints.bert_leaves import check_bert_leaves
from mlm_consistency.checkpoints.checkpoint import Checkpoint
from mlm_consistency.checkpoints.digest import fingerprint
from mlm_consistency.errors import CheckpointError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.presets import network_fields, preset_names


@dataclasses.dataclass(frozen=True)
class LeafGroup:
    """Leaves that differ in their layer alone.

    Attributes:
      name: with `layers_*` for the layer.
      count: how many layers.
      shape: of each.
      dtype: as stored.
      parameters: weights in all of them.
    """

    name: str
    count: int
    shape: tuple[int, ...]
    dtype: str
    parameters: int


@dataclasses.dataclass(frozen=True)
class Description:
    """Leaves, counts and the network that was recognised.

    Attributes:
      address: where the checkpoint lies.
      form: how it is written.
      groups: its leaves, those of a stack's layers together where they are alike.
      tensors: number of leaves.
      parameters: number of weights.
      config: the network, or None where none fits.
      problem: why none fits, or what else is wrong; empty if all is well.
      fingerprint: see `checkpoints.digest.fingerprint`; empty where it cannot be computed.
    """

    address: str
    form: str
    groups: tuple[LeafGroup, ...]
    tensors: int
    parameters: int
    config: T5Config | BertConfig | None
    problem: str
    fingerprint: str

    def __str__(self) -> str:
        width = max(len(group.name) for group in self.groups)
        lines = [f"{self.address}  ({self.form})"]
        for g in self.groups:
            times = f"{g.count} x " if g.count > 1 else ""
            shape = f"{times}{g.shape}"
            lines.append(f"  {g.name:<{width}}  {shape:<24} {g.dtype:<9} {g.parameters:>15,}")
        lines.append(f"{self.parameters:,} parameters in {self.tensors} tensors")
        if self.config is not None:
            fields = ", ".join(f"{k}={v}" for k, v in network_fields(self.config).items())
            published = "BERT family"
            if isinstance(self.config, T5Config):
                published = " or ".join(preset_names(self.config)) or "no published size"
            lines += [f"network {self.config.name} ({published})", f"  {fields}"]
        if self.fingerprint:
            lines.append(f"fingerprint {self.fingerprint}")
        if self.problem:
            lines.append(f"problem: {self.problem}")
        return "\n".join(lines)


def leaf_groups(checkpoint: Checkpoint) -> tuple[LeafGroup, ...]:
    """The leaves in order, those with the same pattern, shape and dtype in one group."""
    groups: dict[tuple[str, tuple[int, ...], str], list[int]] = {}
    for name, leaf in checkpoint.leaves.items():
        parts = ["layers_*" if part.startswith("layers_") else part for part in name.split(".")]
        groups.setdefault((".".join(parts), leaf.shape, leaf.dtype.name), []).append(leaf.size)
    return tuple(
        LeafGroup(name, len(sizes), shape, dtype, sum(sizes))
        for (name, shape, dtype), sizes in groups.items()
    )


def checked_network(
    checkpoint: Checkpoint, expected: T5Config | None = None
) -> T5Config | BertConfig:
    """The network of either family that the checkpoint holds whole.

    Raises:
      CheckpointError: if it is of none, differs from `expected`, or leaves do not fit.
    """
    if isinstance(checkpoint.config, BertConfig) and expected is None:
        check_bert_leaves(checkpoint, checkpoint.config)
        return checkpoint.config
    network = architecture(checkpoint, expected)
    check_leaves(checkpoint, network)
    return network


def describe(checkpoint: Checkpoint, expected: T5Config | None = None) -> Description:
    """Describes a checkpoint that was opened; reads its small leaves alone.

    A checkpoint that no network fits is described too, with the reason in `problem`.
    """
    config: T5Config | BertConfig | None = None
    problem, mark = "", ""
    try:
        config = checked_network(checkpoint, expected)
        mark = fingerprint(checkpoint)
    except CheckpointError as error:
        problem = str(error)
    return Description(
        address=checkpoint.address,
        form=checkpoint.form,
        groups=leaf_groups(checkpoint),
        tensors=len(checkpoint.leaves),
        parameters=checkpoint.parameter_count,
        config=config,
        problem=problem,
        fingerprint=mark,
    )
