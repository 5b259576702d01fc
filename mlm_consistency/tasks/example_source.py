"""Sources: files of a benchmark -> text examples, each with the place that it was read from."""

from __future__ import annotations

import abc
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError

if TYPE_CHECKING:
    from mlm_consistency.tasks.config import TaskConfig


@dataclass(frozen=True)
class Located:
    """A text example and its place, "FILE line 12", for messages."""

    example: TextExample
    place: str


@dataclass(frozen=True)
class Dropped:
    """A row that the benchmark holds but that is no question with an answer; counted by reason."""

    reason: str
    place: str


SourceRow: TypeAlias = Located | Dropped
KINDS = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}


class ExampleSource(abc.ABC):
    """Reads one benchmark in its original files. One file and one line in the table each.

    Attributes:
      splits: names of the splits, the usual one first.
      subjects: subjects or files that the benchmark consists of; () where it has none.
      forms: ways to put the question, the usual one first.
      expects: what `data_dir` must hold, for messages.
      needs_data_dir: False where the data ship with the package.
      candidates_from_beams: True where the candidates come from beam search.
    """

    splits: tuple[str, ...] = ("test",)
    subjects: tuple[str, ...] = ()
    forms: tuple[str, ...] = ("plain",)
    expects: str = ""
    needs_data_dir: bool = True
    candidates_from_beams: bool = False

    @abc.abstractmethod
    def files(self, config: TaskConfig) -> list[Any]:
        """The files that `read` will open, so that all are seen to exist before anything runs."""

    @abc.abstractmethod
    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        """The rows in the files' order.

        Raises:
          DataError: for a row that is malformed, with file and line.
        """


def read_text(file: Any) -> str:
    """The file's text; line ends as they are, a byte-order mark taken off.

    Raises:
      DataError: if the file is missing, unreadable or not UTF-8.
    """
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file}: not UTF-8 (byte {error.start}). Save the file in UTF-8."
        ) from error
    except Exception as error:  # a bucket's library has errors of its own
        raise unreadable(file, error) from error


def unreadable(file: Any, error: Exception) -> DataError:
    """What is said of a file or folder, in a bucket say, that cannot be looked at."""
    said = str(error).strip().splitlines() or [type(error).__name__]
    return DataError(
        f"{file}: cannot be read: {said[0]}. See that it is there and that this machine's account "
        "may list and read it."
    )


def read_jsonl(file: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, object) of each line that is not blank.

    Raises:
      DataError: for a line that is no JSON object, and for a file with none.
    """
    empty = True
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        empty = False
        place = f"{file} line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise DataError(f"{place}: not JSON: {error}. Expected one object a line.") from error
        if not isinstance(row, dict):
            raise DataError(f"{place}: expected a JSON object. Got {type(row).__name__}.")
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:  # JSON can hold half a surrogate pair
            half = error.object[error.start]
            raise DataError(
                f"{place}: {half!r} is half of a surrogate pair and no text. Take it out, or "
                "write the whole pair."
            ) from error
        yield place, row
    if empty:
        raise DataError(f"{file}: the file is empty. Expected one JSON object a line.")


def field(row: dict[str, Any], key: str, kind: type, place: str) -> Any:
    """row[key], which must be there and of the given kind.

    Raises:
      DataError: naming the place, the key and what came.
    """
    if key not in row:
        have = ", ".join(sorted(map(str, row))) or "none"
        raise DataError(f"{place}: the key {key!r} is missing. Keys there: {have}.")
    value = row[key]
    # bool is a kind of int in Python, but `true` is no label.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise DataError(
            f"{place}: {key!r} must be {KINDS[kind]}. Got {type(value).__name__}: {value!r:.80}."
        )
    return value


def texts(row: dict[str, Any], key: str, place: str) -> tuple[str, ...]:
    """row[key] as texts.

    Raises:
      DataError: if it is no list of strings.
    """
    values = field(row, key, list, place)
    for position, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(
                f"{place}: {key}[{position}] must be a string. "
                f"Got {type(value).__name__}: {value!r}."
            )
    return tuple(values)
