"""The names of the files in a run folder.

RUN/config.gin
RUN/manifest.json
RUN/records/TASK-00000-of-00007.scores.parquet
RUN/records/TASK-00000-of-00007.examples.parquet
RUN/records/TASK-00000-of-00007.divergences.parquet   where the run has them
RUN/records/origin-PROCESS-START.json     while a run is under way: who wrote which shard
RUN/summary.json, RUN/figures/, RUN/report.html
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

MANIFEST = "manifest.json"
RECORDS = "records"
SUMMARY = "summary.json"

_SHARD = re.compile(r"(?P<task>.+)-(?P<shard>\d{5,})-of-(?P<shards>\d{5,})\.scores\.parquet")
_ORIGIN = re.compile(r"origin-(\d+)-(\d+)\.json")


def _shard_stem(task: str, shard: int, shards: int) -> str:
    # A seqio name may hold a colon or a slash, which a file name may not.
    return f"{quote(task, safe='')}-{shard:05d}-of-{shards:05d}"


def scores_name(task: str, shard: int, shards: int) -> str:
    """File name of the scores of one shard, `shard` counted from 0."""
    return f"{_shard_stem(task, shard, shards)}.scores.parquet"


def examples_name(task: str, shard: int, shards: int) -> str:
    """File name of the examples of one shard, `shard` counted from 0."""
    return f"{_shard_stem(task, shard, shards)}.examples.parquet"


def divergences_name(task: str, shard: int, shards: int) -> str:
    """File name of the divergences of one shard, `shard` counted from 0."""
    return f"{_shard_stem(task, shard, shards)}.divergences.parquet"


def parse_scores_name(name: str) -> tuple[str, int, int] | None:
    """(task, shard, shards) of a scores file's name; None for any other name."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return None
    return unquote(match["task"]), int(match["shard"]), int(match["shards"])


def origin_name(process: int, start: int) -> str:
    """File name of the note of which shards one start of one process wrote."""
    return f"origin-{process:05d}-{start:05d}.json"


def parse_origin_name(name: str) -> tuple[int, int] | None:
    """(process, start) of an origin file's name; None for any other name."""
    match = _ORIGIN.fullmatch(name)
    return (int(match[1]), int(match[2])) if match else None
