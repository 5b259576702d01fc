"""Vocabularies: text to token ids and back, and which ids are the sentinels.

Vocabulary                the interface
SentencePieceVocabulary   T5, UL2, Flan, mT5 and the one that ships
TokenizerVocabulary       tokenizer.json, BERT's WordPiece, RoBERTa's byte-level BPE
load_vocabulary           from "tiny", a file or a folder
"""

from mlm_consistency.vocabularies.base import Vocabulary, split_at_sentinels
from mlm_consistency.vocabularies.load import load_vocabulary
from mlm_consistency.vocabularies.sentence_piece import SentencePieceVocabulary
from mlm_consistency.vocabularies.tokenizer_file import TokenizerVocabulary

__all__ = [
    "SentencePieceVocabulary",
    "TokenizerVocabulary",
    "Vocabulary",
    "load_vocabulary",
    "split_at_sentinels",
]
