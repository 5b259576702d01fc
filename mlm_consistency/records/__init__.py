"""What was measured: Parquet shards and a manifest, written atomically, resumable, versioned.

- schema: the columns of a shard, and scored examples in that form
- divergences: how far apart the conditionals are over the whole vocabulary, as records
- manifest: what a run was made of; what must be equal for a run to be resumed
- environment: versions and the source's revision, for the manifest
- layout: the names of the files in a run folder
- storage: publishing one file whole or not at all, on a local disk or in a bucket
- parquet: tables to bytes that depend on nothing else, and back
- writer: RunWriter, shards as they are scored, the complete manifest last
- origins: who wrote which shard, while a run is under way
- verify: every example x conditional x candidate exactly once, read back from the files
- reader: open_run, the tables of a finished run
"""

from mlm_consistency.records.environment import installed_versions, source_revision
from mlm_consistency.records.manifest import Manifest, TaskEntry
from mlm_consistency.records.reader import Run, open_run
from mlm_consistency.records.schema import SCHEMA_VERSION
from mlm_consistency.records.writer import RunWriter

__all__ = [
    "SCHEMA_VERSION",
    "Manifest",
    "Run",
    "RunWriter",
    "TaskEntry",
    "installed_versions",
    "open_run",
    "source_revision",
]
