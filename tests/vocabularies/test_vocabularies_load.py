"""Recognising the form of a vocabulary, and BERT-style files."""

from __future__ import annotations

import json

import pytest

from mlm_consistency.errors import VocabularyError
from mlm_consistency.vocabularies import load_vocabulary

WORDPIECES = [
    "[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "un", "##able", ".",
]  # fmt: skip


@pytest.fixture
def wordpiece(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDPIECES) + "\n")
    return tmp_path


def test_wordpiece(wordpiece):
    v = load_vocabulary(str(wordpiece))
    assert v.size == len(WORDPIECES)
    assert (v.pad_id, v.unk_id, v.cls_id, v.sep_id, v.mask_id) == (0, 2, 3, 4, 5)
    assert v.pieces(v.encode("The CAT [MASK] unable.")) == [
        "the", "cat", "[MASK]", "un", "##able", ".",
    ]  # fmt: skip
    assert v.count_unknown(v.encode("the dog")) == 1
    assert v.num_sentinels == 0
    with pytest.raises(VocabularyError, match="it has none"):
        v.sentinel(0)


def test_wordpiece_keeps_case_where_told_or_where_the_file_has_capitals(wordpiece):
    lower = load_vocabulary(str(wordpiece))
    (wordpiece / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": False}))
    cased = load_vocabulary(str(wordpiece))
    assert cased.count_unknown(cased.encode("The")) == 1
    assert cased.digest != lower.digest
    (wordpiece / "tokenizer_config.json").unlink()
    (wordpiece / "vocab.txt").write_text("\n".join([*WORDPIECES, "Tom"]) + "\n")
    assert load_vocabulary(str(wordpiece / "vocab.txt")).pieces([11]) == ["Tom"]


def test_byte_pairs(tmp_path):
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "c", "a", "t", "Ġ", "ca", "cat", "<mask>"]
    (tmp_path / "vocab.json").write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a\nca t\n")
    v = load_vocabulary(str(tmp_path))
    assert (v.cls_id, v.pad_id, v.eos_id, v.unk_id, v.mask_id) == (0, 1, 2, 3, 10)
    assert v.pieces(v.encode("cat cat <mask>")) == ["cat", "Ġ", "cat", "<mask>"]
    (tmp_path / "merges.txt").write_text("#version: 0.2\nc a t\n")
    with pytest.raises(VocabularyError, match=r"merges.txt line 2"):
        load_vocabulary(str(tmp_path))
    (tmp_path / "merges.txt").unlink()
    with pytest.raises(VocabularyError, match=r"merges.txt is missing"):
        load_vocabulary(str(tmp_path))


def test_tokenizer_json_with_sentinels(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    pieces = {"<pad>": 0, "</s>": 1, "<unk>": 2, "▁that": 3}
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([f"<extra_id_{k}>" for k in reversed(range(3))])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    v = load_vocabulary(str(tmp_path))
    assert (v.size, v.num_sentinels, v.sentinel(0), v.sentinel(2)) == (7, 3, 6, 4)
    assert v.encode("that") == [3]
    assert (v.pad_id, v.eos_id, v.unk_id) == (0, 1, 2)


def test_extra_ids_beside_a_sentencepiece_file_are_read(tmp_path):
    from importlib.resources import files

    asset = files("mlm_consistency.pretraining") / "assets" / "tiny.spm.model"
    (tmp_path / "spiece.model").write_bytes(asset.read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"extra_ids": 20}))
    assert load_vocabulary(str(tmp_path)).num_sentinels == 20
    assert load_vocabulary(str(tmp_path), extra_ids=5).num_sentinels == 5
    # The conversion in tokenizer.json is not looked at where the original is there.
    (tmp_path / "tokenizer.json").write_text("{}")
    assert load_vocabulary(str(tmp_path)).num_sentinels == 20


def test_an_address_is_read_through_epath(tmp_path, monkeypatch):
    from importlib.resources import files

    from etils import epath

    asset = files("mlm_consistency.pretraining") / "assets" / "tiny.spm.model"
    (tmp_path / "v.model").write_bytes(asset.read_bytes())
    asked = []

    def local(address):
        asked.append(address)
        return tmp_path / address.rpartition("/")[2]

    monkeypatch.setattr(epath, "Path", local)
    assert load_vocabulary("gs://bucket/vocab/v.model").size == load_vocabulary("tiny").size
    assert asked == ["gs://bucket/vocab/v.model"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.txt", "the\ncat\n", "lacks .UNK., .CLS."),
        ("vocab.json", "{", "not JSON|merges.txt is missing"),
        ("tokenizer.json", "{", "no readable tokenizer.json"),
        ("words.bin", "x", "no form that is known"),
    ],
)
def test_damaged_or_unknown_files_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(VocabularyError, match=message):
        load_vocabulary(str(tmp_path / name))


def test_a_missing_path_or_an_empty_folder_says_what_was_expected(tmp_path):
    with pytest.raises(VocabularyError, match=r"no vocabulary at .*nowhere.*SentencePiece"):
        load_vocabulary(str(tmp_path / "nowhere"))
    with pytest.raises(VocabularyError, match="found nothing"):
        load_vocabulary(str(tmp_path))


def test_extra_ids_are_for_sentencepiece(wordpiece):
    with pytest.raises(VocabularyError, match="Leave extra_ids out"):
        load_vocabulary(str(wordpiece), extra_ids=100)


@pytest.mark.real_data
def test_bert_and_roberta(data_dir):
    bert = load_vocabulary(str(data_dir / "vocab" / "bert-base-uncased"))
    assert (bert.size, bert.mask_id, bert.cls_id, bert.sep_id) == (30522, 103, 101, 102)
    assert bert.pieces(bert.encode("Hello [MASK] Wörld")) == ["hello", "[MASK]", "world"]
    roberta = load_vocabulary(str(data_dir / "vocab" / "roberta-base"))
    assert (roberta.size, roberta.mask_id, roberta.pad_id) == (50265, 50264, 1)
    assert roberta.pieces(roberta.encode("Hello World <mask>")) == ["Hello", "ĠWorld", "<mask>"]
