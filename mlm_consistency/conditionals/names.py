"""Names of conditionals: the table of patterns, the parser and the paper's sets.

Adding a pattern: 1. one file with a subclass of Conditional and a drawing in its docstring;
2. one line in PATTERNS; 3. one name of it in EXAMPLES, which the contract tests run over.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlm_consistency.conditionals.conditional import Conditional, mode_word
from mlm_consistency.errors import ConfigError, UnknownNameError
from mlm_consistency.tables import lookup, unknown_name

# First part of a name -> what builds it from the rest.
PATTERNS = {
    "baseline": "mlm_consistency.conditionals.baseline:Baseline",
    "offset": "mlm_consistency.conditionals.offset:OffsetByName",
    "span": "mlm_consistency.conditionals.span:SpanByName",
}
EXAMPLES = (
    "baseline",
    "offset_3",
    "offset_-1",
    "span_3_5_2",
    "span_3_5_auto",
    "span_3_5_50pct",
    "baseline@NLU",
    "span_3_4_1@S2S",
)

_MMLU = (
    "baseline", "offset_1", "offset_2", "offset_3", "span_3_5_1", "span_3_5_2", "span_3_3_1",
    "span_3_3_2", "span_3_4_1", "span_3_4_2",
)  # fmt: skip
_OFFSETS_TO_6 = ("baseline", *(f"offset_{k}" for k in range(1, 7)))
# Young, Chen, You (arXiv 2301.00068 v3): the conditionals behind each reported figure. Flan models
# have no sentinels, so that only the offsets of each set remain.
PRESETS: dict[str, tuple[str, ...]] = {
    "mmlu": _MMLU,
    "bbh": _MMLU,
    "lambada": (*_OFFSETS_TO_6, "span_3_5_1", "span_3_5_2", "span_3_10_1"),
    "flan_mmlu": _MMLU[:4],
    "flan_bbh": _MMLU[:4],
    "flan_lambada": _OFFSETS_TO_6,
    "ul2_modes": ("baseline@NLG", "baseline@NLU", "baseline@S2S"),
}


def get_conditional(name: str) -> Conditional:
    """The conditional of a name: "baseline", "offset_3", "span_3_5_2", "baseline@NLU".

    `@MODE` (NLU, NLG, S2S, or none) may follow any name and overrides the run's mode word.

    Raises:
      UnknownNameError: if there is no such pattern, with the nearest names.
      ConfigError: if its arguments are wrong.
    """
    pattern, at, mode = name.strip().partition("@")
    head, *arguments = pattern.split("_")
    if head not in PATTERNS:
        raise unknown_name("conditional", name, (*EXAMPLES, *PRESETS["lambada"]))
    if at and not mode:
        raise ConfigError(f"conditional {name!r}: a mode must follow '@', as in {pattern}@NLU.")
    word = None if not at else ("" if mode.lower() == "none" else mode_word(mode))
    return lookup(PATTERNS, head, "conditional").from_arguments(tuple(arguments), word)


def paper_conditionals(preset: str = "mmlu") -> tuple[Conditional, ...]:
    """The conditionals behind a figure of the paper, the baseline first.

    Raises:
      UnknownNameError: if there is no such preset.
    """
    if preset not in PRESETS:
        raise unknown_name("set of conditionals", preset, PRESETS)
    return tuple(get_conditional(name) for name in PRESETS[preset])


def parse_conditionals(
    value: str | Sequence[str | Conditional],
) -> tuple[Conditional, ...]:
    """A preset ("mmlu"), names with commas ("baseline,offset_1"), or a list of names.

    Raises:
      UnknownNameError: for a name that is neither preset nor conditional.
      ConfigError: if there is none, one comes twice, or the first is no baseline.
    """
    parts: Sequence[str | Conditional]
    if isinstance(value, str):
        if value in PRESETS:
            return paper_conditionals(value)
        parts = [part for part in value.replace(" ", "").split(",") if part]
    elif isinstance(value, Sequence) and all(isinstance(p, str | Conditional) for p in value):
        parts = value
    else:
        raise ConfigError(
            f"conditionals must be a preset (mmlu, bbh, lambada) or a list of names, got {value!r}."
        )
    try:
        found = tuple(p if isinstance(p, Conditional) else get_conditional(p) for p in parts)
    except UnknownNameError as error:
        if isinstance(value, str) and "," not in value:
            raise unknown_name("conditional", value, (*PRESETS, *EXAMPLES)) from error
        raise
    if not found:
        raise ConfigError("no conditionals: give a preset (mmlu, bbh, lambada) or names.")
    names = [conditional.name for conditional in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"conditionals given twice: {', '.join(twice)}.")
    if found[0].pattern != "baseline":
        raise ConfigError(
            f"the first conditional must be a baseline, which the others are compared with. "
            f"Got {names[0]!r} first."
        )
    return found
