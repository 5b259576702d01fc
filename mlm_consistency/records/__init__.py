"""What was measured: Parquet shards and a manifest, written atomically, resumable, versioned.

schema     the columns of a shard, and tables of scored examples in that form
manifest   what a run was made of; what must be equal for a run to be resumed
layout     the names of the files in a run folder
storage    publishing one file whole or not at all, on a local disk or a bucket
writer     RunWriter: shards as they are scored, the complete manifest last
verify     every example x conditional x candidate exactly once, read back from the files
reader     open_run: the tables of a finished run
"""

from mlm_consistency.records.manifest import Manifest, TaskEntry
from mlm_consistency.records.reader import Run, open_run
from mlm_consistency.records.schema import SCHEMA_VERSION
from mlm_consistency.records.writer import RunWriter

__all__ = ["SCHEMA_VERSION", "Manifest", "Run", "RunWriter", "TaskEntry", "open_run"]
