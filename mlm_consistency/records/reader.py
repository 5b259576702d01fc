"""open_run: the tables of a run folder.

Other tools read the same files directly: `polars.read_parquet("RUN/records/*.scores.parquet")`,
`duckdb.sql("from 'RUN/records/*.scores.parquet'")`, `pandas.read_parquet(..)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import layout, storage, verify
from mlm_consistency.records.divergences import DIVERGENCES_SCHEMA, has_divergences
from mlm_consistency.records.manifest import Manifest
from mlm_consistency.records.schema import EXAMPLES_SCHEMA, SCORES_SCHEMA
from mlm_consistency.tables import unknown_name


@dataclasses.dataclass(frozen=True)
class Run:
    """A run folder that has been opened; tables are read when asked for.

    Attributes:
      folder: its path.
      manifest: what it was made of.
      shards: task -> the shards that are whole, in order; all of them unless incomplete.
    """

    folder: str
    manifest: Manifest
    shards: dict[str, tuple[int, ...]]

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the run's tasks."""
        return tuple(self.manifest.tasks)

    @property
    def complete(self) -> bool:
        """Whether every shard of every task is there and was verified."""
        return self.manifest.complete

    def scores(self, task: str) -> pa.Table:
        """A row for each (example, conditional, candidate), in order; columns in schema.py."""
        return self._table(task, 0)

    def examples(self, task: str) -> pa.Table:
        """A row for each example, in order; columns in schema.py."""
        return self._table(task, 1)

    @property
    def has_divergences(self) -> bool:
        """Whether the run compared its conditionals over the whole vocabulary."""
        return has_divergences(self.manifest)

    def divergences(self, task: str) -> pa.Table:
        """A row for each (example, pair of conditionals), in order; columns in divergences.py.

        Raises:
          RecordsError: where the run has none.
        """
        if not self.has_divergences:
            raise RecordsError(
                f"{self.folder} has no divergences over the whole vocabulary: score with "
                "DIVERGENCE = True and two conditionals or more, into another OUTPUT_DIR"
            )
        return self._read(task, verify.read_divergences, DIVERGENCES_SCHEMA)

    def _table(self, task: str, which: int) -> pa.Table:
        # Verified when the run ended, and again here: files may have been changed since.
        where: dict[int, int] = {}

        def read(folder: str, manifest: Manifest, task: str, shard: int) -> pa.Table:
            tables = verify.read_shard(folder, manifest, task, shard)
            for example in verify.check_shard(*tables, manifest, task, shard).tolist():
                if example in where:
                    raise RecordsError(
                        f"{self.folder}: example {example} of task {task!r} is in shard "
                        f"{where[example]} and again in shard {shard}. Remove the files of these "
                        "two shards and give the score command again."
                    )
                where[example] = shard
            return tables[which]

        return self._read(task, read, (SCORES_SCHEMA, EXAMPLES_SCHEMA)[which])

    def _read(self, task: str, read: Callable[..., pa.Table], schema: pa.Schema) -> pa.Table:
        if task not in self.shards:
            raise unknown_name("task of the run", task, self.shards)
        records = storage.join(self.folder, layout.RECORDS)
        try:
            tables = [read(records, self.manifest, task, shard) for shard in self.shards[task]]
        except FileNotFoundError as error:
            raise RecordsError(
                f"{error.filename or error}: the shard was there when the run was opened and is "
                "gone now; give the score command again to score it anew"
            ) from error
        if not tables:
            return schema.empty_table()
        return pa.concat_tables(tables).unify_dictionaries()


def open_run(folder: storage.PathLike, allow_incomplete: bool = False) -> Run:
    """Opens a run folder.

    Args:
      allow_incomplete: read the shards that are whole where the run did not end.
    Raises:
      RecordsError: where the folder holds no run, or one that is not complete; says how many
        shards are there.
    """
    path = storage.join(folder, layout.MANIFEST)
    try:
        manifest = Manifest.from_json(storage.read_bytes(path), path)
    except FileNotFoundError:
        raise RecordsError(
            f"{storage.join(folder)} holds no run: there is no {layout.MANIFEST} in it. Take the "
            "OUTPUT_DIR of a `mlm-consistency score` command."
        ) from None
    records = storage.join(folder, layout.RECORDS)
    shards = {
        task: tuple(sorted(verify.finished_shards(records, manifest, task)))
        for task in manifest.tasks
    }
    missing = {
        task: entry.shards - len(shards[task])
        for task, entry in manifest.tasks.items()
        if len(shards[task]) != entry.shards
    }
    if (missing or not manifest.complete) and not allow_incomplete:
        state = "; ".join(
            f"{task}: {len(shards[task])} of {entry.shards} shards"
            for task, entry in manifest.tasks.items()
        )
        raise RecordsError(
            f"{storage.join(folder)} is not a complete run ({state}). Give its score command "
            "again to finish it, or allow incomplete runs to read what is there."
        )
    return Run(
        storage.join(folder), manifest.replace(complete=not missing and manifest.complete), shards
    )
