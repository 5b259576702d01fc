"""From a path to a vocabulary: the form is recognised, not declared."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

from mlm_consistency.errors import VocabularyError
from mlm_consistency.vocabularies.base import Vocabulary
from mlm_consistency.vocabularies.sentence_piece import SentencePieceVocabulary
from mlm_consistency.vocabularies.tokenizer_file import (
    from_byte_pairs,
    from_tokenizer_json,
    from_wordpiece,
)

TINY = "tiny"
TINY_EXTRA_IDS = 100
# What a folder is searched for, in this order.
IN_FOLDERS = ("spiece.model", "sentencepiece.model", "tokenizer.json", "vocab.txt", "vocab.json")
FORMS = (
    "a SentencePiece file (*.model), a folder with spiece.model, sentencepiece.model or "
    "tokenizer.json, a WordPiece vocab.txt, or vocab.json beside merges.txt"
)


def load_vocabulary(path: str, extra_ids: int | None = None) -> Vocabulary:
    """Reads a vocabulary.

    Args:
      path: "tiny" (the one that ships), a file or a folder; local, or an address such as gs://
        that `etils.epath` can read. Of several forms in one folder SentencePiece is taken first:
        it is what the model was trained with, `tokenizer.json` is a conversion.
      extra_ids: sentinels to add to a SentencePiece file. None: what `tokenizer_config.json`
        beside it says, otherwise 100, or none where the file holds its own (mT5).

    Raises:
      VocabularyError: if there is nothing there, nothing that is recognised, or it is damaged.
    """
    if path == TINY:
        return _tiny(extra_ids)
    where = as_path(path)
    if not where.exists():
        raise VocabularyError(f"no vocabulary at {path!r}. Expected {FORMS}, or {TINY!r}.")
    if where.is_dir():
        return _from_folder(where, extra_ids)
    return _from_file(where, extra_ids)


def as_path(path: str) -> Any:
    """A pathlib path for local files, an `etils.epath` one for addresses such as gs://."""
    if "://" not in path:
        return Path(path).expanduser()
    from etils import epath

    return epath.Path(path)


def _tiny(extra_ids: int | None) -> Vocabulary:
    asset = importlib.resources.files("mlm_consistency.pretraining") / "assets" / "tiny.spm.model"
    if not asset.is_file():
        raise VocabularyError(
            "the vocabulary 'tiny' is missing from this installation "
            "(mlm_consistency/pretraining/assets/tiny.spm.model). Install the package again."
        )
    extra_ids = TINY_EXTRA_IDS if extra_ids is None else extra_ids
    return SentencePieceVocabulary(asset.read_bytes(), extra_ids, name=TINY)


def _from_folder(folder: Any, extra_ids: int | None) -> Vocabulary:
    for file_name in IN_FOLDERS:
        if (folder / file_name).exists():
            return _from_file(folder / file_name, extra_ids)
    found = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
    raise VocabularyError(f"no vocabulary in {str(folder)!r}: expected {FORMS}; found {found}.")


def _from_file(file: Any, extra_ids: int | None) -> Vocabulary:
    name = f"{file.parent.name}/{file.name}" if file.parent.name else file.name
    settings = _settings(file.parent)
    if file.suffix == ".model":
        if extra_ids is None:
            extra_ids = settings.get("extra_ids")
        return SentencePieceVocabulary(file.read_bytes(), extra_ids, name)
    if extra_ids is not None:
        raise VocabularyError(
            f"vocabulary {name!r}: extra_ids={extra_ids} can only be added to a SentencePiece "
            "file; this one holds its special pieces itself. Leave extra_ids out."
        )
    if file.suffix == ".txt":
        return from_wordpiece(file.read_bytes(), name, settings.get("do_lower_case"))
    if file.name == "vocab.json":
        merges = file.parent / "merges.txt"
        if not merges.exists():
            raise VocabularyError(f"vocabulary {name!r}: merges.txt is missing beside vocab.json.")
        return from_byte_pairs(file.read_bytes(), merges.read_bytes(), name)
    if file.suffix == ".json":
        return from_tokenizer_json(file.read_bytes(), name)
    raise VocabularyError(f"vocabulary {str(file)!r} has no form that is known: {FORMS}.")


def _settings(folder: Any) -> dict[str, Any]:
    """What a `tokenizer_config.json` beside the vocabulary says, or nothing."""
    file = folder / "tokenizer_config.json"
    if not file.exists():
        return {}
    try:
        return dict(json.loads(file.read_text()))
    except ValueError as error:
        raise VocabularyError(f"{str(file)!r} is not JSON: {error}") from error
