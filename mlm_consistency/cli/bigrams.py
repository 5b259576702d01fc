"""`mlm-consistency bigrams`: pairs of words in a text file, a model's tables, their diagnosis."""

from __future__ import annotations

import dataclasses
import importlib.resources
import json
import os
import sys
from pathlib import Path
from typing import Any

import gin
import numpy as np

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.bigram_cases import case
from mlm_consistency.cli.settings import macro
from mlm_consistency.errors import ConfigError, DataError
from mlm_consistency.records import storage
from mlm_consistency.tasks.ngram_probes import NgramProbeConfig, choose_proposals, ngram_probes
from mlm_consistency.tasks.probes import (
    PairProbe,
    PairProbeConfig,
    connected_bigrams,
    gold_and_top_k,
    pair_probes,
)
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

DESCRIPTION = """\
Masks pairs of words in the lines of TEXT_FILE, asks the model for p(a|b), p(b|a) and what it
expects with both masked, and writes OUTPUT_DIR/tables.json (as `mlm-consistency diagnose` reads
it), OUTPUT_DIR/bigrams.json (order test, cross-ratio, ConTestS statistics, coherent joints) and the
page OUTPUT_DIR/report.html. The model is of the BERT family or of the T5 family, as its checkpoint
says. `mlm-consistency compare` sets several such folders side by side.
"""
MACROS: dict[str, Any] = {
    "TEXT_FILE": None,
    "MODEL": None,
    "CHECKPOINT_PATH": None,
    "VOCABULARY": None,
    "VOCABULARY_EXTRA_IDS": None,
    "MODE": None,
    "OUTPUT_DIR": None,
    "MESH_SHAPE": (0, 1),
    "COMPUTE_DTYPE": "float32",
    "PARAMETER_DTYPE": "float32",
}
SHIPPED_TEXT = "stories"
CLOSING = {False: "without_closing_sentinel", True: "with_closing_sentinel"}

probe_config = gin.external_configurable(PairProbeConfig, "pair_probes")
ngram_config = gin.external_configurable(NgramProbeConfig, "ngram_probes")


@dataclasses.dataclass(frozen=True)
class BigramConfig:
    """What is asked at each pair.

    Attributes:
      words: at each position: 2 makes four connected bigrams (the true words and the model's
        best proposal that differs in both); above 2 the true word and the model's best others.
      proposals: how many of the model's likeliest words are looked through for them.
      closing_sentinel: of T5-style models, whether the sentinel that ends a span counts.
      preferences: of T5-style models, whether to ask for preferences in both ways (with and
        without the closing sentinel), and for those at the end of each line (`ngram_probes`).
      beams: beams from which the other end of a line is taken.
    """

    words: int = 2
    proposals: int = 20
    closing_sentinel: bool = False
    preferences: bool = False
    beams: int = 8

    def __post_init__(self) -> None:
        if not 2 <= self.words <= self.proposals:
            raise ConfigError(
                "bigrams: 2 <= words <= proposals must hold. "
                f"Got {self.words} and {self.proposals}."
            )
        if self.beams < 1:
            raise ConfigError(f"bigrams: beams must be at least 1. Got {self.beams}.")


bigram_config = gin.external_configurable(BigramConfig, "bigrams")


@dataclasses.dataclass(frozen=True)
class Asked:
    """Pairs with the words that compete for them: probes, a and b int32 [N, words], and the
    entropies [N] of the two both-masked distributions added up (nats); dropped pairs by reason."""

    probes: tuple[PairProbe, ...]
    a: np.ndarray
    b: np.ndarray
    entropy: np.ndarray
    dropped: dict[str, int]


def run(argv: list[str]) -> int:
    """The command."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("bigrams", DESCRIPTION)
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    return bigrams(bigram_config(), probe_config(), macro("OUTPUT_DIR", "bigrams"))


def bigrams(config: BigramConfig, probes_config: PairProbeConfig, output_dir: str) -> int:
    """Asks, diagnoses, writes; everything else comes from gin's macros."""
    # ---- what is asked -------------------------------------------------------------------------
    words = macro("VOCABULARY", "bigrams")
    vocabulary = load_vocabulary(words, macro("VOCABULARY_EXTRA_IDS"))
    path = text_file(macro("TEXT_FILE", "bigrams"))
    found = pair_probes(path, vocabulary, probes_config)
    # ---- who answers ---------------------------------------------------------------------------
    from mlm_consistency.cli.bigram_models import open_model

    model = open_model(
        macro("CHECKPOINT_PATH", "bigrams"),
        vocabulary,
        words,
        name=macro("MODEL"),
        mode=macro("MODE") or "",
        mesh=tuple(macro("MESH_SHAPE")),
        dtype=macro("COMPUTE_DTYPE"),
        param_dtype=macro("PARAMETER_DTYPE"),
    )
    asked = choose_words(model, found.probes, vocabulary, config)
    if not asked.probes:
        raise DataError(f"{path}: every pair was dropped ({asked.dropped})")
    tables = model.tables(asked.probes, asked.a, asked.b, config.closing_sentinel)
    # ---- what it means -------------------------------------------------------------------------
    from mlm_consistency.analysis.bigrams import preference, read_pairs, summarize_bigrams

    shown = zip(asked.probes, asked.a, asked.b, asked.entropy, tables, strict=True)
    cases = [case(*one, vocabulary) for one in shown]
    pairs = read_pairs(cases)
    name = CLOSING[config.closing_sentinel] if model.has_sentinels else "joint_by_order"
    preferences: dict[str, Any] = {"bigram": {name: preference(pairs)}}
    if config.preferences and model.has_sentinels:
        preferences = more_preferences(model, asked, path, vocabulary, config, preferences)
    counts = {
        "lines": found.lines,
        "pairs": len(asked.probes),
        "forward_rows": model.rows,
        "dropped": {**found.dropped_lines, **found.dropped_pairs, **asked.dropped},
    }
    summary = {
        "schema": 1, "text": path.name, "model": model.name, "counts": counts,
        **summarize_bigrams(pairs), "preferences": preferences,
    }  # fmt: skip
    storage.make_folder(output_dir)
    for name, content in (
        ("config.gin", gin_files.operative()),
        ("tables.json", json.dumps(cases)),
        ("bigrams.json", json.dumps(summary, indent=1)),
    ):
        storage.publish(storage.join(output_dir, name), f"{content}\n".encode())
    from mlm_consistency.report.bigrams_page import write_bigrams_report

    page = write_bigrams_report(output_dir)
    print(describe(summary))
    print(f"report: {page}", file=sys.stderr)
    return 0


def more_preferences(
    model: Any,
    asked: Asked,
    path: Path,
    vocabulary: Vocabulary,
    config: BigramConfig,
    preferences: dict[str, Any],
) -> dict[str, Any]:
    """`preferences` with those that count the closing sentinel the other way, and the n-grams'."""
    from mlm_consistency.analysis.bigrams import preference, read_pairs
    from mlm_consistency.analysis.ngrams import ngram_preferences

    other = not config.closing_sentinel
    tables = model.tables(asked.probes, asked.a, asked.b, other)
    shown = zip(asked.probes, asked.a, asked.b, asked.entropy, tables, strict=True)
    pairs = read_pairs([case(*one, vocabulary) for one in shown])
    bigram = preferences["bigram"] | {CLOSING[other]: preference(pairs)}
    settings = ngram_config()
    ends = ngram_probes(path, vocabulary, settings)
    ngram: dict[str, Any] = {"short": settings.short, "long": settings.long, "lines": ends.lines}
    if not ends.probes:
        return {"bigram": bigram, "ngram": ngram | {"n": 0, "dropped": ends.dropped}}
    beams = model.proposed_ends(ends.probes, config.beams, vocabulary)
    chosen = choose_proposals(ends.probes, beams, vocabulary, settings.short)
    ngram["dropped"] = {**ends.dropped, **chosen.dropped}
    if chosen.kept:
        kept = [ends.probes[number] for number in chosen.kept]
        values = model.ends(kept, chosen.ids)
        for closing, name in CLOSING.items():
            ngram[name] = ngram_preferences(values, closing)
    return {"bigram": bigram, "ngram": ngram | {"n": len(chosen.kept)}}


def text_file(name: str) -> Path:
    """The path of TEXT_FILE; "stories" is the sample that ships."""
    if name != SHIPPED_TEXT:
        return Path(name)
    assets = importlib.resources.files("mlm_consistency.tasks") / "assets"
    return Path(os.fspath(assets / "stories_text.txt"))  # type: ignore[call-overload]


def choose_words(
    model: Any, probes: tuple[PairProbe, ...], vocabulary: Vocabulary, config: BigramConfig
) -> Asked:
    """The true words and the model's own proposals against them."""
    ranked = model.ranked(probes, config.proposals)
    entropy = ranked.a_entropy + ranked.b_entropy
    if config.words == 2:
        # In the order of their ranks together, so that the likeliest pair comes first.
        order = sorted(np.ndindex(config.proposals, config.proposals), key=sum)
        offers = [
            [(int(a[i]), int(b[j])) for i, j in order]
            for a, b in zip(ranked.a, ranked.b, strict=True)
        ]
        sets = connected_bigrams(probes, offers, vocabulary)
        kept, a, b, dropped = sets.kept, sets.a, sets.b, sets.dropped
    else:
        gold = np.array([probe.gold for probe in probes])
        first = gold_and_top_k(gold[:, 0], ranked.a, config.words - 1, vocabulary)
        second = gold_and_top_k(gold[:, 1], ranked.b, config.words - 1, vocabulary)
        kept = np.intersect1d(first.kept, second.kept)
        a = first.ids[np.searchsorted(first.kept, kept)]
        b = second.ids[np.searchsorted(second.kept, kept)]
        dropped = {
            f"{why} ({where} word)": n
            for where, sets_at in (("first", first), ("second", second))
            for why, n in sets_at.dropped.items()
        }
    return Asked(tuple(probes[n] for n in kept), a, b, entropy[kept], dropped)


def describe(summary: dict[str, Any]) -> str:
    """A few lines for the terminal."""
    from mlm_consistency.analysis.bigrams import THRESHOLDS

    counts = summary["counts"]
    lines = [
        f"{summary['model']}: {counts['pairs']} pairs of {counts['lines']} lines, "
        f"{counts['forward_rows']} forward rows"
    ]
    for name, title in (("order", "order test |d|"), ("cross_ratio", "cross-ratio |D|")):
        f = summary[name]
        shares = ", ".join(f"{100 * f[f'above_{x:g}']:.1f} % above {x:g}" for x in THRESHOLDS)
        lines.append(
            f"  {title:<16} mean {f['mean_abs']:.4f}, median {f['median_abs']:.4f} nats; {shares}"
        )
    order = summary["order"]
    lines.append(
        f"  {'2 tanh(|d|/2)':<16} mean {order['mean_relative']:.4f}, "
        f"median {order['median_relative']:.4f}"
    )
    for kind, ways in summary["preferences"].items():
        for way, f in ways.items():
            if isinstance(f, dict) and "flips" in f:
                lines.append(
                    f"  {kind + ' preference':<16} {way.replace('_', ' ')}: mean {f['mean']:.4f}, "
                    f"median {f['median']:.4f} nats, signs differ {100 * f['flips']:.1f} % of "
                    f"{f['n']}"
                )
    return "\n".join(lines)
