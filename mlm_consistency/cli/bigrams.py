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
from mlm_consistency.cli.settings import macro
from mlm_consistency.errors import ConfigError, DataError
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
it) and OUTPUT_DIR/bigrams.json: order test, cross-ratio, ConTestS statistics. The model is of the
BERT family when the vocabulary has a mask, of the T5 family otherwise.
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
THRESHOLDS = (0.5, 1.0, 2.0)

probe_config = gin.external_configurable(PairProbeConfig, "pair_probes")


@dataclasses.dataclass(frozen=True)
class BigramConfig:
    """What is asked at each pair.

    Attributes:
      words: at each position: 2 makes four connected bigrams (the true words and the model's
        best proposal that differs in both); above 2 the true word and the model's best others.
      proposals: how many of the model's likeliest words are looked through for them.
      closing_sentinel: of T5-style models, whether the sentinel that ends a span counts.
    """

    words: int = 2
    proposals: int = 20
    closing_sentinel: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.words <= self.proposals:
            raise ConfigError(
                "bigrams: 2 <= words <= proposals must hold. "
                f"Got {self.words} and {self.proposals}."
            )


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
        closing_sentinel=config.closing_sentinel,
    )
    asked = choose_words(model, found.probes, vocabulary, config)
    if not asked.probes:
        raise DataError(f"{path}: every pair was dropped ({asked.dropped})")
    tables = model.tables(asked.probes, asked.a, asked.b)
    # ---- what it means -------------------------------------------------------------------------
    counts = {
        "lines": found.lines,
        "pairs": len(asked.probes),
        "forward_rows": model.rows,
        "dropped": {**found.dropped_lines, **found.dropped_pairs, **asked.dropped},
    }
    summary = {"text": str(path), "model": model.name, "counts": counts, **summarize(asked, tables)}
    cases = [case(*one, vocabulary) for one in zip(asked.probes, asked.a, asked.b, tables)]  # noqa: B905
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.gin", gin_files.operative()),
        ("tables.json", json.dumps(cases)),
        ("bigrams.json", json.dumps(summary, indent=1)),
    ):
        partial = Path(output_dir) / f"{name}.partial"
        partial.write_text(content + "\n", encoding="utf-8")
        os.replace(partial, Path(output_dir) / name)
    print(describe(summary))
    print(f"{output_dir}/tables.json, {output_dir}/bigrams.json", file=sys.stderr)
    return 0


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


def summarize(asked: Asked, tables: list[Any]) -> dict[str, Any]:
    """Order test at the true words, cross-ratio of each table, ConTestS statistics."""
    from mlm_consistency.analysis.contests import contests
    from mlm_consistency.analysis.cross_ratio import summarize_cross_ratio
    from mlm_consistency.analysis.order_test import log_ratio_at, relative_difference
    from mlm_consistency.analysis.pair_tables import PairTables

    given_b = np.stack([table.log_a_given_b for table in tables])
    given_a = np.stack([table.log_b_given_a for table in tables])
    a_masked = np.stack([table.log_a_masked for table in tables])
    b_masked = np.stack([table.log_b_masked for table in tables])
    d = log_ratio_at(a_masked[:, 0], given_a[:, 0, 0], b_masked[:, 0], given_b[:, 0, 0])
    largest = summarize_cross_ratio(PairTables(given_b, given_a, subset=True)).max_abs
    distance = np.array([probe.distance for probe in asked.probes])
    return {
        "order": figures(d) | {"mean_relative": float(relative_difference(d).mean()),
                               "median_relative": float(np.median(relative_difference(d)))},
        "cross_ratio": figures(largest),
        "by_distance": {
            int(n): {
                "order": figures(d[distance == n]),
                "cross_ratio": figures(largest[distance == n]),
            }
            for n in np.unique(distance)
        },
        "contests": dataclasses.asdict(contests(d, asked.entropy)),
    }  # fmt: skip


def figures(values: np.ndarray) -> dict[str, Any]:
    """n, mean and median of |values| in nats, and the shares above the thresholds."""
    size = np.abs(values)
    shares = {f"above_{limit:g}": float((size > limit).mean()) for limit in THRESHOLDS}
    mean, median = float(size.mean()), float(np.median(size))
    return {"n": len(size), "mean_abs": mean, "median_abs": median, **shares}


def case(
    probe: PairProbe, a: np.ndarray, b: np.ndarray, table: Any, vocabulary: Vocabulary
) -> dict[str, Any]:
    """One case of tables.json: what `diagnose` reads, and what a reader wants to see."""
    return table.as_case() | {
        "text": probe.text,
        "distance": probe.distance,
        "first": vocabulary.pieces(a.tolist()),
        "second": vocabulary.pieces(b.tolist()),
    }


def describe(summary: dict[str, Any]) -> str:
    """A few lines for the terminal."""
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
    lines.append(f"  2 tanh(|d|/2)    mean {summary['order']['mean_relative']:.4f}, "
                 f"median {summary['order']['median_relative']:.4f}")  # fmt: skip
    return "\n".join(lines)
