"""LAMBADA: the last word of a passage, in plain text or in OpenAI's jsonl."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.beam_candidates import (
    candidates_file,
    read_candidates,
    with_candidates,
)
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    ExampleSource,
    Located,
    SourceRow,
    field,
    read_jsonl,
    read_text,
)

# The plain text has a space in front of each of these; they are closed up in this order.
CLOSED_UP = (",", "!", ".", ":", ";", "?", "n't", "'d", "'s", "'m", "'ll")


class Lambada(ExampleSource):
    """Passages whose last word is to be guessed; candidates come from beam search.

    plain_text  lambada_{test,development}_plain_text.txt: lower case, words and marks apart. The
                last word is split off, then spaces before , ! . : ; ? n't 'd 's 'm 'll are
                removed, as in the paper's runs.
    openai      lambada_test_openai.jsonl: `text` with capitals and quotes restored.

    `answer` is the last word. Candidates are read from the folder TaskConfig.beams; without it
    examples have none, and no labels.

    Source: Paperno et al. 2016, arXiv 1606.06031.
    """

    splits = ("test", "development")
    forms = ("plain_text", "openai")
    expects = (
        "lambada_test_plain_text.txt and lambada_development_plain_text.txt, or "
        "lambada_test_openai.jsonl for form='openai'"
    )
    candidates_from_beams = True

    def files(self, config: TaskConfig) -> list[Any]:
        found = [_passages_file(config)]
        return [*found, candidates_file(config)] if config.beams else found

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        split = config.split or "test"
        candidates = read_candidates(config) if config.beams else None
        for number, (place, passage) in enumerate(_passages(_passages_file(config), config.form)):
            before, _, word = passage.rpartition(" ")
            if not before.strip() or not word:
                raise DataError(f"{place}: expected a passage of several words.")
            prompt = before if config.form == "openai" else close_up(before)
            example = TextExample(f"{split}/{number}", prompt, (), (), "", answer=word)
            if candidates is None:
                yield Located(example, place)
            else:
                yield with_candidates(example, place, candidates, config)


def close_up(text: str) -> str:
    """Takes away the space before , ! . : ; ? n't 'd 's 'm 'll.

    >>> close_up("i do n't know , she 'd said .")
    "i don't know, she'd said."
    """
    for mark in CLOSED_UP:
        text = text.replace(f" {mark}", mark)
    return text


def _passages_file(config: TaskConfig) -> Any:
    split = config.split or "test"
    if config.form == "openai":
        return config.folder / f"lambada_{split}_openai.jsonl"
    return config.folder / f"lambada_{split}_plain_text.txt"


def _passages(file: Any, form: str) -> Iterator[tuple[str, str]]:
    if form == "openai":
        for place, row in read_jsonl(file):
            yield place, field(row, "text", str, place).strip()
        return
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if line.strip():
            yield f"{file} line {number}", line.strip()
