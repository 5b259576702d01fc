"""Offline caching with seqio's own Beam pipeline, on the direct runner.

Beam is no dependency: apache-beam 2.77 needs protobuf < 7, with which SentencePiece 0.2.3 does not
load. The test was seen to pass with protobuf 6.33 and SentencePiece 0.2.1 (docs/other-programs.md).
"""

from __future__ import annotations

import pytest

from mlm_consistency.tasks import TaskConfig, load_task
from mlm_consistency.tasks.rows import flat_rows
from mlm_consistency.vocabularies import load_vocabulary

beam = pytest.importorskip("apache_beam", reason="offline caching needs apache-beam[tfrecord]")
pytest.importorskip("google_crc32c", reason="offline caching needs apache-beam[tfrecord]")
seqio = pytest.importorskip("seqio")

from absl import flags  # noqa: E402
from seqio.scripts import cache_tasks_main  # noqa: E402

from mlm_consistency.tasks import seqio_tasks  # noqa: E402


def test_a_cached_task_is_read_back_the_same(tmp_path):
    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["pytest"])
    config = TaskConfig("stories_choice", limit=3, label="cached")
    tiny = load_vocabulary("tiny")
    grouped, flat = seqio_tasks.register(config, tiny, "mmlu", "NLG", "ul2")
    with beam.Pipeline(runner="DirectRunner") as pipeline:
        cache_tasks_main.run_pipeline(pipeline, [grouped, flat], str(tmp_path))
    seqio.set_global_cache_dirs([str(tmp_path)])

    def cached(name):
        task = seqio.get_mixture_or_task(name)
        return task.get_dataset(split="test", shuffle=False, use_cached=True)

    encoded = load_task(config).encoded_examples(tiny, "mmlu", "NLG", "ul2")
    assert list(seqio_tasks.read_grouped(cached(grouped))) == list(encoded)
    keys = ("example", "conditional", "candidate")
    found = sorted(tuple(int(row[k]) for k in keys) for row in cached(flat).as_numpy_iterator())
    wanted = [
        tuple(row[k] for k in keys)
        for example in encoded
        for row in flat_rows(example, "cached", encoded.conditionals)
    ]
    assert found == wanted
