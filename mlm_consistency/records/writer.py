"""RunWriter: shards as they are scored, the complete manifest last.

A kill at any moment loses at most the shard in work. Starting again with the same configuration
goes on after the shards that are whole and ends with the very bytes of an unbroken run; another
configuration is refused with the name of what changed.

Several processes may write one run: process 0 makes its writer first (it publishes the manifest),
then the others, with the finished shards that it found; each writes the shards that are its own;
process 0 calls `complete` when all have written. Waiting for one another is the caller's part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import layout, parquet, schema, storage, verify
from mlm_consistency.records.divergences import divergences_table, has_divergences
from mlm_consistency.records.manifest import Manifest, differences
from mlm_consistency.records.origins import Origin, gather, note_paths, timestamp


class RunWriter:
    """Writes the records of one run into a folder, resuming what is already there."""

    def __init__(
        self,
        folder: storage.PathLike,
        manifest: Manifest,
        resume: bool = True,
        *,
        process: int = 0,
        processes: int = 1,
        finished: Mapping[str, Iterable[int]] | None = None,
    ):
        """Opens a run folder, made where it is missing.

        Args:
          folder: of the run.
          manifest: what the run is made of.
          resume: whether a run that is there may be gone on with.
          process: number of this process.
          processes: how many write.
          finished: task -> shards that are whole, as process 0 found them; given to the other
            processes, which then do not look at shards that somebody may be writing.

        Raises:
          RecordsError: where the folder holds a run of another configuration (names what
            changed), a run although `resume` is false, or shards without a manifest; or where it
            cannot be written.
        """
        self.folder = storage.join(folder)
        self.records = storage.join(self.folder, layout.RECORDS)
        self._manifest_path = storage.join(self.folder, layout.MANIFEST)
        self._process = process
        earlier = self._earlier()
        if earlier is not None:
            self._refuse_unless_same(earlier, manifest, resume)
            manifest = manifest.replace(created=earlier.created, origins=earlier.origins)
        elif process == 0:
            self._refuse_stray_shards()
        self.manifest = manifest.replace(
            created=manifest.created or timestamp(), complete=False, finished=""
        )
        if finished is None:
            storage.make_folder(self.records)
            storage.remove_stale(self.folder)
            storage.remove_stale(self.records)
            self._finished = {task: self._whole(task) for task in manifest.tasks}
        else:
            self._finished = {task: set(finished[task]) for task in manifest.tasks}
        if earlier is not None and earlier.complete and self._all_finished():
            self.manifest = earlier
        elif process == 0:
            self._publish_manifest()
        self._origin = Origin(self.records, self.manifest, process, processes)

    @property
    def resumed(self) -> bool:
        """Whether shards were found that need not be written again."""
        return any(self._finished.values())

    def finished(self, task: str) -> set[int]:
        """The shards of `task` that are whole, found at the start or written since."""
        return set(self._finished[task])

    def write(self, shard: schema.ScoredExamples, vocabulary: schema.Pieces) -> None:
        """Publishes one shard: its examples, its divergences where the run has them, then its
        scores, each whole or not at all.

        Raises:
          ScoringError: where a score is not finite; names example and conditional.
          RecordsError: where the shard is not of this run, or the disk is full or forbidden.
        """
        entry = self.manifest.tasks.get(shard.task)
        if entry is None or not 0 <= shard.shard < entry.shards:
            raise RecordsError(
                f"shard {shard.shard} of task {shard.task!r} is not of this run, which has "
                + ", ".join(f"{name!r} in {e.shards}" for name, e in self.manifest.tasks.items())
            )
        digest = self.manifest.fingerprint_digest()
        names = shard.task, shard.shard, entry.shards
        conditionals = self.manifest.conditionals
        scores = schema.scores_table(shard, conditionals)
        tables = {layout.examples_name(*names): schema.examples_table(shard, vocabulary)}
        if has_divergences(self.manifest):
            tables[layout.divergences_name(*names)] = divergences_table(shard, conditionals)
        tables[layout.scores_name(*names)] = scores  # last: with it the shard is whole
        self._origin.announce(shard.task, shard.shard)
        for name, table in tables.items():
            storage.publish(storage.join(self.records, name), parquet.to_bytes(table, digest))
        self._finished[shard.task].add(shard.shard)

    def write_text(self, name: str, text: str) -> None:
        """Publishes a text file in the run folder (config.gin)."""
        storage.publish(storage.join(self.folder, name), text.encode())

    def complete(self, counts: Mapping[str, int] | None = None) -> Manifest:
        """Verifies from the files that every row is there once, then marks the manifest complete.

        Only process 0 verifies and publishes; in any other process this does nothing.

        Args:
          counts: task -> examples that were scored, where the caller counted them.
        Raises:
          RecordsError: names what is missing, there twice, or counted otherwise.
        """
        if self._process != 0:
            return self.manifest
        if self.manifest.complete:
            # An earlier start may have been killed between its manifest and its cleaning up.
            self._clean_up()
            return self.manifest
        found = verify.verify(self.records, self.manifest)
        for task, count in (counts or {}).items():
            if found.get(task) != count:
                raise RecordsError(
                    f"task {task!r}: {count} examples were scored, the records hold "
                    f"{found.get(task)}: the run is not complete"
                )
        present = {
            (task, shard) for task, e in self.manifest.tasks.items() for shard in range(e.shards)
        }
        origins = gather(self.records, self.manifest.origins, present)
        self.manifest = self.manifest.replace(
            origins=tuple(origins), finished=timestamp(), complete=True
        )
        self._publish_manifest()
        self._clean_up()
        return self.manifest

    def _clean_up(self) -> None:
        for path in note_paths(self.records):
            storage.remove(path)
        storage.remove_stale(self.records, everything=True)

    def _publish_manifest(self) -> None:
        storage.publish(self._manifest_path, self.manifest.to_json().encode())

    def _earlier(self) -> Manifest | None:
        try:
            text = storage.read_bytes(self._manifest_path)
        except FileNotFoundError:
            return None
        return Manifest.from_json(text, self._manifest_path)

    def _refuse_unless_same(self, earlier: Manifest, now: Manifest, resume: bool) -> None:
        if not resume:
            raise RecordsError(
                f"{self.folder} already holds a run, begun {earlier.created}: take another "
                "OUTPUT_DIR, or allow resuming"
            )
        changed = differences(earlier, now)
        if changed:
            raise RecordsError(
                f"{self.folder} holds a run of another configuration. What changed:\n  "
                + "\n  ".join(changed)
                + "\nRestore that, or take another OUTPUT_DIR."
            )

    def _refuse_stray_shards(self) -> None:
        stray = [n for n in storage.names_in(self.records) if layout.parse_scores_name(n)]
        if stray:
            raise RecordsError(
                f"{self.records} holds {len(stray)} shards (the first is {stray[0]}) but "
                f"{self._manifest_path} is missing, so nobody can say of which configuration "
                "they are: take another OUTPUT_DIR, or remove them"
            )

    def _whole(self, task: str) -> set[int]:
        finished = verify.finished_shards(self.records, self.manifest, task)
        shards = self.manifest.tasks[task].shards
        digest = self.manifest.fingerprint_digest()
        for shard in finished:
            path = storage.join(self.records, layout.scores_name(task, shard, shards))
            parquet.check_footer(storage.read_bytes(path), schema.SCORES_SCHEMA, digest, path)
        return finished

    def _all_finished(self) -> bool:
        return all(
            len(self._finished[task]) == entry.shards for task, entry in self.manifest.tasks.items()
        )
