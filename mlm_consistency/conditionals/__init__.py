"""Conditionals: how a prompt is masked. Pure functions on token ids; numpy only.

Conditional                                                one pattern, with a drawing:
  Baseline, Offset, NegativeOffset, Span, SpanAuto, SpanShare
get_conditional, parse_conditionals, paper_conditionals    from names and presets
Layout, Prompt, Sentinel, Answer, NotApplicable            where each prompt token goes
TextExample, EncodedExample, Masked, encode_example        an example as text and as ids
"""

from mlm_consistency.conditionals.baseline import Baseline
from mlm_consistency.conditionals.conditional import FAMILIES, Conditional, mode_word
from mlm_consistency.conditionals.example import (
    EncodedExample,
    Masked,
    TextExample,
    check_mode,
    encode_example,
)
from mlm_consistency.conditionals.layout import (
    Answer,
    Layout,
    NotApplicable,
    Piece,
    Prompt,
    Sentinel,
)
from mlm_consistency.conditionals.names import (
    EXAMPLES,
    PATTERNS,
    PRESETS,
    get_conditional,
    paper_conditionals,
    parse_conditionals,
)
from mlm_consistency.conditionals.negative_offset import NegativeOffset
from mlm_consistency.conditionals.offset import Offset
from mlm_consistency.conditionals.span import Span, SpanAuto, SpanShare

__all__ = [
    "EXAMPLES",
    "FAMILIES",
    "PATTERNS",
    "PRESETS",
    "Answer",
    "Baseline",
    "Conditional",
    "EncodedExample",
    "Layout",
    "Masked",
    "NegativeOffset",
    "NotApplicable",
    "Offset",
    "Piece",
    "Prompt",
    "Sentinel",
    "Span",
    "SpanAuto",
    "SpanShare",
    "TextExample",
    "check_mode",
    "encode_example",
    "get_conditional",
    "mode_word",
    "paper_conditionals",
    "parse_conditionals",
]
