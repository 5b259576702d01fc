"""`mlm-consistency inspect`: what a run asks, before it is asked; or what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.settings import MACROS, family_of, macro, task_configs
from mlm_consistency.conditionals import (
    Conditional,
    EncodedExample,
    Masked,
    check_mode,
    parse_conditionals,
)
from mlm_consistency.errors import ConfigError
from mlm_consistency.tasks import load_task
from mlm_consistency.tasks.encoded import EncodedExamples
from mlm_consistency.vocabularies import Vocabulary, load_vocabulary

DESCRIPTION = """\
Prints one example under every conditional, sentinels visible, what is scored highlighted (between
» and « where there is no colour), and why a conditional does not apply; then the counts and
lengths of the whole task. With --checkpoint: the leaves of a checkpoint instead.
"""
FROM_BEAMS = "still to be searched for (`mlm-consistency beams`)"
SENTINEL, SCORED, PLAIN = "bold cyan", "bold black on bright_yellow", ""


def run(argv: list[str]) -> int:
    """The command."""
    if any(a == "--checkpoint" or a.startswith("--checkpoint=") for a in argv):
        from mlm_consistency.cli.inspect_checkpoint import run as inspect_checkpoint

        path = [a.removeprefix("--checkpoint=") for a in argv if a != "--checkpoint"]
        return inspect_checkpoint(path)
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("inspect", DESCRIPTION)
    parser.add_argument("--example", default="0", help="number or id of the example (default 0)")
    parser.add_argument("--checkpoint", metavar="PATH", help="list a checkpoint's leaves")
    parser.add_argument("--no_counts", action="store_true", help="leave the whole task out")
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    vocabulary = load_vocabulary(macro("VOCABULARY", "inspect"), macro("VOCABULARY_EXTRA_IDS"))
    conditionals = parse_conditionals(macro("CONDITIONALS"))
    family = macro("FAMILY") or family_of(macro("MODEL") or macro("CHECKPOINT_PATH"))
    mode = check_mode(macro("MODE"), family)
    console = Console(highlight=False, soft_wrap=True)
    for config in task_configs():
        encoded = load_task(config).encoded_examples(vocabulary, conditionals, mode, family)
        show_example(console, find(encoded, flags.example), conditionals, vocabulary)
        if not flags.no_counts:
            show_counts(console, encoded)
    return 0


def find(examples: EncodedExamples, wanted: str) -> EncodedExample:
    """The example of that number or id.

    Raises:
      ConfigError: if there is none.
    """
    last = None
    for example in examples:
        if wanted in (example.id, str(example.index)):
            return example
        last = example
    count = 0 if last is None else last.index + 1
    raise ConfigError(
        f"task {examples.task.name!r} has no example {wanted!r}: numbers go from 0 to {count - 1}, "
        f"ids look like {last.id if last else ''!r}"
    )


def show_example(
    console: Console,
    example: EncodedExample,
    conditionals: Sequence[Conditional],
    vocabulary: Vocabulary,
) -> None:
    """The example's text, then its tokens under every conditional."""
    console.print(Text(f"{example.id}", "bold"), f" {example.subject}")
    console.print(Text(example.prompt))
    for number, text in enumerate(example.candidate_texts):
        right = "  <- right" if number in example.labels else ""
        console.print(Text(f"  ({number}) {text}{right}"))
    if not example.candidates:
        console.print(Text(f"  answer: {example.answer}; candidates: {FROM_BEAMS}"))
    for conditional, masked in zip(conditionals, example.masked, strict=True):
        console.print()
        console.print(Text(conditional.name, "bold"))
        if not isinstance(masked, Masked):
            console.print(Text(f"  not applicable: {masked.reason}", "italic"))
            continue
        console.print(Text("  encoder  "), tokens(masked.encoder, vocabulary), sep="")
        for number, candidate in enumerate(example.candidates):
            line = tokens(masked.prefix, vocabulary)
            if len(masked.prefix):
                line.append(" ")
            if not console.is_terminal:
                line.append("»")
            line.append(" ".join(vocabulary.pieces(candidate[masked.moved :].tolist())), SCORED)
            if not console.is_terminal:
                line.append("«")
            console.print(Text(f"  targets {number}" if number == 0 else f"          {number}"),
                          " ", line, sep="")  # fmt: skip


def tokens(ids: np.ndarray, vocabulary: Vocabulary) -> Text:
    """Pieces of `ids` with a space between, sentinels in colour."""
    line = Text()
    for number, (token, piece) in enumerate(
        zip(ids.tolist(), vocabulary.pieces(ids.tolist()), strict=True)
    ):
        style = PLAIN if vocabulary.sentinel_number(token) is None else SENTINEL
        line.append(("" if number == 0 else " ") + piece, style)
    return line


def show_counts(console: Console, encoded: EncodedExamples) -> None:
    """Counts of the whole task: examples, lengths, what was dropped, what does not apply."""
    survey = encoded.survey()
    console.print()
    console.print(Text(f"task {encoded.task.name}: {survey.examples} examples", "bold"))
    for why, count in survey.dropped.items():
        console.print(Text(f"  dropped {count}: {why}"))
    # The first conditional is the baseline: its lengths are those that papers report.
    baseline = np.array([lengths.encoder[0] for lengths in survey.lengths])
    candidates = np.array([n for lengths in survey.lengths for n in lengths.candidates])
    if len(candidates):
        answers = f"{len(candidates)}, of {candidates.min()} to {candidates.max()} tokens"
    else:
        answers = FROM_BEAMS
    console.print(
        Text(
            f"  encoder length of {encoded.conditionals[0].name}: max {baseline.max()}, "
            f"min {baseline.min()}, mean {baseline.mean():.4f}; candidates: {answers}"
        )
    )
    for name, count in survey.not_applicable.items():
        if count:
            console.print(Text(f"  {name} does not apply to {count}"))
    for sentence in survey.warnings(encoded.task.name):
        console.print(Text(f"  {sentence}"))
