"""HellaSwag: which of four endings follows, from the official jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlm_consistency.conditionals import TextExample
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    ExampleSource,
    Located,
    SourceRow,
    field,
    read_jsonl,
    texts,
)


class HellaSwag(ExampleSource):
    """Prompt `ACTIVITY: CONTEXT`, four endings.

    Reads DATA_DIR/hellaswag_SPLIT.jsonl with the keys activity_label, ctx, endings, label (and
    ind, where it is there). The official test split has no labels and is not offered.

    Source: Zellers et al. 2019, arXiv 1905.07830.
    """

    splits = ("val", "train")
    expects = "hellaswag_val.jsonl (or hellaswag_val_2000.jsonl) as published"

    def files(self, config: TaskConfig) -> list[Any]:
        split = config.split or "val"
        whole = config.folder / f"hellaswag_{split}.jsonl"
        if whole.is_file():
            return [whole]
        # Parts of the split, such as the first 2,000 rows.
        parts = sorted(config.folder.glob(f"hellaswag_{split}_*.jsonl"))
        return parts[:1] or [whole]

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        split = config.split or "val"
        for file in self.files(config):
            for number, (place, row) in enumerate(read_jsonl(file)):
                activity = field(row, "activity_label", str, place)
                example = TextExample(
                    id=f"{split}/{row.get('ind', number)}",
                    prompt=f"{activity}: {field(row, 'ctx', str, place)}",
                    candidates=texts(row, "endings", place),
                    labels=(field(row, "label", int, place),),
                    subject=activity,
                )
                yield Located(example, place)
