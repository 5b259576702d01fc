"""SentencePiece vocabularies: sentinels, and the traps of text with sentinels in it."""

from __future__ import annotations

import io
import pickle

import pytest
import sentencepiece

from mlm_consistency.errors import VocabularyError
from mlm_consistency.vocabularies import (
    SentencePieceVocabulary,
    load_vocabulary,
    split_at_sentinels,
)

SENTENCES = [
    "Tom bought 4 apples and ate 2 . He now has 2 .",
    "Mia went to the barn . Jack followed her there .",
    "the cat sat on the mat and that was that",
    "[NLG] [NLU] [S2S] one two three",
]


def train(**options: object) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20), model_writer=model, vocab_size=64,
        hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2, **options,
    )  # fmt: skip
    return model.getvalue()


@pytest.fixture(scope="module")
def model() -> bytes:
    return train()


@pytest.fixture(scope="module")
def tiny() -> SentencePieceVocabulary:
    vocabulary = load_vocabulary("tiny")
    assert isinstance(vocabulary, SentencePieceVocabulary)
    return vocabulary


def test_sentinels_follow_the_file_with_the_first_at_the_end(model):
    bare, full = SentencePieceVocabulary(model, 0), SentencePieceVocabulary(model, 100)
    assert full.size == bare.size + 100
    assert full.num_sentinels == 100
    assert [full.sentinel(k) for k in range(100)] == [full.size - 1 - k for k in range(100)]
    assert full.sentinel_number(full.size - 3) == 2
    assert full.sentinel_number(5) is None
    assert SentencePieceVocabulary(model).size == full.size


def test_another_number_of_sentinels_changes_their_ids_and_the_digest(model):
    ten, hundred = SentencePieceVocabulary(model, 10), SentencePieceVocabulary(model, 100)
    assert ten.sentinel(0) != hundred.sentinel(0)
    assert ten.digest != hundred.digest
    assert len(ten.digest) == 64
    assert ten.encode(SENTENCES[0]) == hundred.encode(SENTENCES[0])


def test_a_sentinel_that_is_not_there_is_an_error_with_the_way_out(model):
    with pytest.raises(VocabularyError, match="extra_ids > 10"):
        SentencePieceVocabulary(model, 10).sentinel(10)
    with pytest.raises(VocabularyError, match="has none"):
        SentencePieceVocabulary(model, 0).sentinel(0)


@pytest.mark.parametrize("prefix", ["", "▁"])
def test_a_file_with_its_own_sentinels_uses_those(prefix):
    symbols = [f"{prefix}<extra_id_{k}>" for k in reversed(range(5))]
    own = SentencePieceVocabulary(train(user_defined_symbols=symbols))
    assert own.extra_ids == 0
    assert own.num_sentinels == 5
    assert own.pieces([own.sentinel(k) for k in range(5)]) == [f"<extra_id_{k}>" for k in range(5)]
    with pytest.raises(VocabularyError, match="extra_ids must be 0"):
        SentencePieceVocabulary(train(user_defined_symbols=symbols), 100)


def test_a_sentinel_keeps_the_space_behind_it_and_gets_no_stray_piece(tiny):
    x0 = tiny.sentinel(0)
    assert tiny.encode("<extra_id_0> that") == [x0, *tiny.encode("that")]
    glued = tiny.encode("<extra_id_0>that")
    assert glued[0] == x0
    assert not tiny.pieces(glued)[1].startswith("▁")
    dot = tiny.pieces(tiny.encode("<extra_id_0>. Hello"))
    assert dot[:2] == ["<extra_id_0>", "."]
    assert dot[2].startswith("▁")


def test_a_text_that_begins_with_a_sentinel_begins_with_its_id(tiny):
    for text in ("<extra_id_0> is here", " <extra_id_7>", "<extra_id_99>"):
        assert tiny.sentinel_number(tiny.encode(text)[0]) is not None


def test_a_space_in_front_of_a_sentinel_is_part_of_it(tiny):
    ids = tiny.encode("Tom <extra_id_0> the barn <extra_id_1><extra_id_2>")
    tom, barn = tiny.encode("Tom"), tiny.encode("the barn")
    assert ids == [*tom, tiny.sentinel(0), *barn, tiny.sentinel(1), tiny.sentinel(2)]
    assert ids == tiny.encode("Tom<extra_id_0> the barn<extra_id_1> <extra_id_2>")


def test_decode_shows_sentinels(tiny):
    text = "Tom<extra_id_0> the barn<extra_id_1>"
    assert tiny.decode(tiny.encode(text)) == text


def test_mode_words_are_text_and_no_ids_of_their_own(tiny):
    for word in ("NLG", "NLU", "S2S"):
        ids = tiny.encode(f"[{word}] Tom has 2")
        assert "".join(tiny.pieces(ids)).startswith(f"▁[{word}]▁")
        assert tiny.count_unknown(ids) == 0
        assert all(tiny.sentinel_number(token) is None for token in ids)
        # The mode word's pieces are the same with and without a prompt behind them.
        assert ids[: len(tiny.encode(f"[{word}]"))] == tiny.encode(f"[{word}]")


def test_line_ends_tabs_and_double_spaces_are_lost(tiny):
    assert tiny.encode("x\ny\tz  w") == tiny.encode("x y z w")


def test_blank_text_has_no_tokens(tiny):
    assert tiny.encode("") == []
    assert tiny.encode("  \n") == []


def test_tiny_is_the_shape_that_the_shipped_model_has(tiny):
    assert tiny.name == "tiny"
    assert tiny.num_sentinels == 100
    assert tiny.sentinel(0) == tiny.size - 1
    assert (tiny.pad_id, tiny.eos_id, tiny.unk_id) == (0, 1, 2)


def test_a_vocabulary_can_be_pickled(model):
    vocabulary = SentencePieceVocabulary(model)
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again.encode(SENTENCES[0]) == vocabulary.encode(SENTENCES[0])
    assert again.digest == vocabulary.digest


@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_no_model_is_named(content):
    with pytest.raises(VocabularyError, match=r"'x.model' is no SentencePiece model"):
        SentencePieceVocabulary(content, name="x.model")


def test_a_model_without_end_piece_is_refused():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES * 20), model_writer=model, vocab_size=64, minloglevel=2,
        hard_vocab_limit=False, eos_id=-1, bos_id=-1,
    )  # fmt: skip
    with pytest.raises(VocabularyError, match="no end-of-text piece"):
        SentencePieceVocabulary(model.getvalue())


def test_split_at_sentinels():
    assert split_at_sentinels("a <extra_id_0> b<extra_id_12>") == ["a ", 0, " b", 12]
    assert split_at_sentinels("") == []


@pytest.mark.real_data
class TestT5:
    """T5's own vocabulary, 32,000 pieces and 100 sentinels."""

    @pytest.fixture(scope="class")
    def t5(self, data_dir):
        return load_vocabulary(str(data_dir / "vocab" / "t5"))

    def test_ids(self, t5):
        assert (t5.size, t5.sentinel(0), t5.sentinel(99)) == (32100, 32099, 32000)
        assert (t5.pad_id, t5.eos_id, t5.unk_id) == (0, 1, 2)

    @pytest.mark.parametrize(
        ("text", "pieces"),
        [
            ("<extra_id_0>. Hello", ["<extra_id_0>", ".", "▁Hello"]),
            ("<extra_id_0> that", ["<extra_id_0>", "▁that"]),
            ("<extra_id_0>that", ["<extra_id_0>", "that"]),
            ("x\ny\tz  w", ["▁", "x", "▁", "y", "▁", "z", "▁", "w"]),
            ("[NLG] Hello", ["▁[", "NL", "G", "]", "▁Hello"]),
            ("[NLU] Hello", ["▁[", "N", "LU", "]", "▁Hello"]),
            ("[S2S] Hello", ["▁[", "S", "2", "S", "]", "▁Hello"]),
        ],
    )
    def test_pieces(self, t5, text, pieces):
        assert t5.pieces(t5.encode(text)) == pieces

    @pytest.mark.parametrize(
        ("text", "unknown"),
        [("1-${phone.number}", 2), ("日本 😀", 2), ("Hello there.", 0), ("{", 1)],
    )
    def test_unknown_pieces_are_counted(self, t5, text, unknown):
        assert t5.count_unknown(t5.encode(text)) == unknown

    def test_a_vocabulary_of_another_size_has_other_sentinels(self, data_dir):
        path = data_dir / "vocab" / "seqio_test" / "sentencepiece.model"
        other = load_vocabulary(str(path), extra_ids=10)
        assert other.sentinel(0) == other.size - 1 != 32099


def test_an_albert_file_has_a_mask_and_no_end_of_text(tmp_path):
    """Pieces as in the published spiece.model: <pad> <unk> [CLS] [SEP] [MASK], no </s>."""
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on a mat\na dog ran over the hill\n" * 20)
    sentencepiece.SentencePieceTrainer.Train(
        f"--input={text} --model_prefix={tmp_path / 'spiece'} --vocab_size=40 --pad_id=0 "
        "--unk_id=1 --bos_id=-1 --eos_id=-1 --control_symbols=[CLS],[SEP],[MASK] "
        "--hard_vocab_limit=false --minloglevel=2"
    )
    vocabulary = load_vocabulary(str(tmp_path / "spiece.model"))
    marks = [vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id]
    assert vocabulary.pieces(marks) == ["[CLS]", "[SEP]", "[MASK]"]
    assert (vocabulary.eos_id, vocabulary.num_sentinels) == (vocabulary.sep_id, 0)
    ids = vocabulary.encode("The Cät [MASK] on a mat")
    assert ids.count(vocabulary.mask_id) == 1
    at = ids.index(vocabulary.mask_id)
    assert ids[:at] == vocabulary.encode("the cat")
    assert ids[at + 1 :] == vocabulary.encode("on a mat")
    assert vocabulary.unk_id not in ids
