"""The tasks as seqio tasks: `seqio.get_mixture_or_task("mlmc_stories_choice")`.

Importing this module registers the stories that ship. Others are registered with `register`.

    mlmc_NAME        grouped: one row a conditional with all candidates (rows.GROUPED)
    mlmc_NAME_flat   one row a conditional and candidate (rows.FLAT), for T5X
    mlmc_stories     mixture of the shipped tasks, each row once; mlmc_stories_flat likewise
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import seqio
import tensorflow as tf

from mlm_consistency.conditionals import Conditional, EncodedExample, TextExample
from mlm_consistency.errors import ConfigError, MlmConsistencyError
from mlm_consistency.tasks.asked import asked_text
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.tasks.rows import FLAT, GROUPED, RowFeature, flat_rows, grouped_rows, read_rows
from mlm_consistency.tasks.seqio_vocabulary import SeqioVocabulary
from mlm_consistency.tasks.task import Task, load_task
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

log = logging.getLogger(__name__)

# TensorFlow reads data; a GPU's memory is JAX's.
with contextlib.suppress(RuntimeError):  # its devices are in use already, so they were wanted
    tf.config.set_visible_devices([], "GPU")

PREFIX = "mlmc_"
FLAT_SUFFIX = "_flat"
SHIPPED = ("stories_choice", "stories_last_word")
SHIPPED_MIXTURE = "stories"
# Token ids, of which seqio shall know the vocabulary; the other features are numbers and texts.
_TOKENS = ("inputs", "targets", "prefix", "candidates", "prompt_ids")
_TEXT_SPEC = {
    "example_id": tf.TensorSpec([], tf.string),
    "prompt": tf.TensorSpec([], tf.string),
    "candidates": tf.TensorSpec([None], tf.string),
    "labels": tf.TensorSpec([None], tf.int32),
    "subject": tf.TensorSpec([], tf.string),
    "answer": tf.TensorSpec([], tf.string),
}


def register(
    config: TaskConfig,
    vocabulary: Vocabulary,
    conditionals: str | Sequence[str | Conditional] = "mmlu",
    mode: str | None = None,
    family: str = "t5",
    *,
    name: str = "",
    replace: bool = False,
) -> tuple[str, str]:
    """Registers a task in both forms.

    Args:
      name: seqio name; "": `mlmc_` and the task's name.
      replace: take an earlier task of that name away; otherwise it is an error.

    Returns:
      The names of the grouped and of the flat task.

    Raises:
      ConfigError: if the name is taken, or settings do not go together.
      DataError: if files are missing.
    """
    task = load_task(config)
    name = name or PREFIX + task.name
    encoded = task.encoded_examples(vocabulary, conditionals, mode, family)
    forms: tuple[tuple[str, Mapping[str, RowFeature], Callable[..., list[Any]]], ...] = (
        (name, GROUPED, grouped_rows),
        (name + FLAT_SUFFIX, FLAT, functools.partial(flat_rows, asked=asked_text(encoded))),
    )
    for form, _, _ in forms:
        if form in seqio.TaskRegistry.names():
            if not replace:
                raise ConfigError(
                    f"seqio task {form!r} is registered already. Give another name, or "
                    "replace=True."
                )
            seqio.TaskRegistry.remove(form)
    for form, features, to_rows in forms:
        seqio.TaskRegistry.add(
            form,
            source=_source(task),
            preprocessors=[
                functools.partial(expand, encoded=encoded, features=features, to_rows=to_rows),
                seqio.CacheDatasetPlaceholder(),
            ],
            output_features=_output_features(features, vocabulary),
            metric_fns=[],
            shuffle_buffer_size=None,  # rows of one example stay together
        )
    return name, name + FLAT_SUFFIX


def register_mixture(name: str, tasks: Sequence[str]) -> str:
    """A mixture of tasks of one form, from which each row comes once when num_epochs=1.

    seqio's own default stops when the first task is at its end and loses the others' rows.
    """
    seqio.MixtureRegistry.add(
        name,
        list(tasks),
        default_rate=1.0,
        sample_fn=functools.partial(
            tf.data.Dataset.sample_from_datasets, stop_on_empty_dataset=False
        ),
    )
    return name


def expand(
    dataset: tf.data.Dataset,
    encoded: EncodedExamples,
    features: Mapping[str, RowFeature],
    to_rows: Callable[..., list[dict[str, Any]]],
) -> tf.data.Dataset:
    """Preprocessor: text examples -> rows, by the pure functions behind `numpy_function`.

    Examples that the filters leave out vanish here; `EncodedExamples.survey` counts them.
    """
    names = list(features)
    task, conditionals, mode = encoded.task, encoded.conditionals, encoded.mode

    def to_arrays(*values: Any) -> list[Any]:
        entry = encoded.encode(_text_example(dict(zip(_TEXT_SPEC, values, strict=True))))
        kept = isinstance(entry, EncodedExample)
        rows = to_rows(entry, task.name, conditionals, mode) if kept else []
        return [np.bool_(kept), *(_stack(rows, name, features[name]) for name in names)]

    def encode(example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        types = [tf.bool, *(tf.as_dtype(features[name].dtype) for name in names)]
        kept, *arrays = tf.numpy_function(
            to_arrays, [example[name] for name in _TEXT_SPEC], types, stateful=False
        )
        stacked = {"kept": tf.ensure_shape(kept, [])}
        for name, array in zip(names, arrays, strict=True):
            stacked[name] = tf.ensure_shape(array, [None] * (1 + features[name].rank))
        return stacked

    def number(index: tf.Tensor, stacked: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        rows = {name: stacked[name] for name in names}
        rows["example"] = tf.fill(tf.shape(rows["example"]), tf.cast(index, tf.int32))
        return rows

    def unpad(row: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {
            name: row[name][: row[features[name].length]] if features[name].rank else row[name]
            for name in names
        }

    dataset = dataset.map(encode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    dataset = dataset.filter(lambda stacked: stacked["kept"])
    if task.config.limit is not None:
        dataset = dataset.take(task.config.limit)
    return dataset.enumerate().map(number).unbatch().map(unpad)


def read_grouped(dataset: Iterable[Any]) -> Iterator[EncodedExample]:
    """Examples of one grouped seqio dataset, ready for scoring.

        task = seqio.get_mixture_or_task("mlmc_stories_choice")
        examples = read_grouped(task.get_dataset(split="test", shuffle=False))

    Raises:
      DataError: if rows were cut or lost.
    """
    for _, example in read_grouped_tasks(dataset):
        yield example


def read_grouped_tasks(dataset: Iterable[Any]) -> Iterator[tuple[str, EncodedExample]]:
    """(task, example) of a grouped dataset that mixes tasks.

    Raises:
      DataError: if rows were cut or lost.
    """
    rows = dataset.as_numpy_iterator() if isinstance(dataset, tf.data.Dataset) else dataset
    return read_rows(rows)


def _source(task: Task) -> seqio.FunctionDataSource:
    split = task.config.split or (task.source.splits or ("test",))[0]

    def examples() -> Iterator[dict[str, Any]]:
        for example in task.text_examples():
            yield {
                "example_id": example.id,
                "prompt": example.prompt,
                "candidates": np.asarray(example.candidates, dtype=object),
                "labels": np.asarray(example.labels, np.int32),
                "subject": example.subject,
                "answer": example.answer,
            }

    def dataset_fn(
        split: str, shuffle_files: bool = False, seed: int | None = None
    ) -> tf.data.Dataset:
        return tf.data.Dataset.from_generator(examples, output_signature=_TEXT_SPEC)

    return seqio.FunctionDataSource(dataset_fn, splits=[split])


def _output_features(
    features: Mapping[str, RowFeature], vocabulary: Vocabulary
) -> dict[str, seqio.Feature]:
    # All of them: mixtures keep no feature that is not declared.
    ours, plain = SeqioVocabulary(vocabulary), seqio.PassThroughVocabulary(size=0)
    return {
        name: seqio.Feature(
            vocabulary=ours if name in _TOKENS else plain,
            add_eos=False,
            dtype=tf.as_dtype(feature.dtype),
            rank=feature.rank,
        )
        for name, feature in features.items()
    }


def _text_example(values: Mapping[str, Any]) -> TextExample:
    return TextExample(
        id=values["example_id"].decode("utf-8"),
        prompt=values["prompt"].decode("utf-8"),
        candidates=tuple(text.decode("utf-8") for text in values["candidates"]),
        labels=tuple(int(label) for label in values["labels"]),
        subject=values["subject"].decode("utf-8"),
        answer=values["answer"].decode("utf-8"),
    )


def _stack(rows: Sequence[Mapping[str, Any]], name: str, feature: RowFeature) -> Any:
    dtype = object if feature.dtype == "string" else np.int32
    fill: Any = b"" if feature.dtype == "string" else 0
    if feature.rank == 0:
        values = [_bytes(row[name]) for row in rows]
        return np.asarray(values, dtype=dtype)
    # At least one: unbatching texts of width 0 crashes TensorFlow. Rows carry their lengths.
    width = max([1, *(len(row[name]) for row in rows)])
    stacked = np.full((len(rows), width), fill, dtype=dtype)
    for k, row in enumerate(rows):
        values = [_bytes(value) for value in row[name]] if dtype is object else row[name]
        stacked[k, : len(row[name])] = values
    return stacked


def _bytes(value: Any) -> Any:
    return value.encode("utf-8") if isinstance(value, str) else value


def _register_shipped() -> None:
    try:
        vocabulary = load_vocabulary("tiny")
        names = [register(TaskConfig(name), vocabulary, "mmlu", "NLG", "ul2") for name in SHIPPED]
    except MlmConsistencyError as error:  # an installation without the assets
        log.warning("the shipped tasks are not registered with seqio: %s", error)
        return
    register_mixture(PREFIX + SHIPPED_MIXTURE, [grouped for grouped, _ in names])
    register_mixture(PREFIX + SHIPPED_MIXTURE + FLAT_SUFFIX, [flat for _, flat in names])


_register_shipped()
