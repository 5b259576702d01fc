"""The small model's SentencePiece vocabulary, trained on its own stories.

Ids follow T5: 0 pads, 1 ends, 2 is unknown (never met: bytes are the fallback). The file
holds no sentinels; the loader appends them above the pieces, ``<extra_id_0>`` the highest.
"""

from __future__ import annotations

import io
import re
import string
from collections.abc import Iterator, Sequence
from pathlib import Path

import sentencepiece

from mlm_consistency.pretraining.lexicon import GENERAL_WORDS, SUFFIXES
from mlm_consistency.pretraining.stories import TRAIN_SEED, generate
from mlm_consistency.pretraining.story_draft import Dice

# With 100 sentinels this makes 2,048 ids.
PIECES = 1948
MODE_WORDS = ("[NLU]", "[S2S]", "[NLG]")
ASSET = Path(__file__).parent / "assets" / "tiny.spm.model"


def corpus(seed: int, stories: int) -> Iterator[str]:
    """Stories in both forms behind a mode word, then lists of words.

    Each word of the stories is listed often enough to become one piece, however rare it is;
    general words less often, alone and now and then with an ending, so that what is left of
    the vocabulary goes to them and to common endings. Letters and punctuation are all met.
    """
    dice = Dice(seed)
    story_words: dict[str, None] = {}
    for index in range(stories):
        story = generate(seed, index)
        mode = dice.pick(MODE_WORDS)
        yield f"{mode} {story.text}."
        yield f"{mode} {story.choice_prompt} {story.choice_answer}"
        story_words.update(dict.fromkeys(re.findall("[A-Za-z]+", f"{story.text} {story.question}")))
    for _ in range(120):
        yield from _lines(dice.shuffled(list(story_words)))
    for _ in range(40):
        yield from _lines(dice.shuffled(GENERAL_WORDS))
        yield from _lines([dice.pick(GENERAL_WORDS) + ending for ending in SUFFIXES * 3])
        yield from _lines([dice.pick(GENERAL_WORDS).capitalize() for _ in SUFFIXES])
        yield f"{' '.join(string.ascii_lowercase)} {' '.join(string.ascii_uppercase)}"
        yield " ".join(string.punctuation)
        yield "it's don't can't I'm we've they'll she'd"


def _lines(words: Sequence[str], length: int = 12) -> Iterator[str]:
    for start in range(0, len(words), length):
        yield " ".join(words[start : start + length])


def train_vocabulary(
    out_path: str | Path = ASSET, seed: int = TRAIN_SEED, stories: int = 20_000
) -> int:
    """Train the unigram model on ``stories`` stories, write it, and return its piece count."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(seed, stories),
        model_writer=model,
        model_type="unigram",
        vocab_size=PIECES,
        hard_vocab_limit=False,
        character_coverage=1.0,
        byte_fallback=True,
        split_digits=True,
        normalization_rule_name="nmt_nfkc",
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        pad_piece="<pad>",
        eos_piece="</s>",
        unk_piece="<unk>",
        # One thread: the order of floating point sums decides which pieces survive.
        num_threads=1,
        shuffle_input_sentence=False,
        minloglevel=1,
    )
    Path(out_path).parent.mkdir(parents=True, exist_ok=True)
    Path(out_path).write_bytes(model.getvalue())
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue()).get_piece_size()


if __name__ == "__main__":
    print(f"{train_vocabulary()} pieces in {ASSET.name}")
