"""The paper's recorded curves, shipped as data: six sets of a model and a benchmark."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources

from mlm_consistency.tables import unknown_name


@dataclasses.dataclass(frozen=True)
class PaperCurve:
    """What the authors' run recorded, for 1..10 conditionals.

    Attributes:
      name: like "UL2 MMLU".
      examples: how many there were.
      accuracy, disagreement: shares, mean over subsets; max ensemble of mean log p a token.
    """

    name: str
    examples: int
    accuracy: tuple[float, ...]
    disagreement: tuple[float, ...]


def paper_curves() -> dict[str, PaperCurve]:
    """Name -> curve. Source: arXiv 2301.00068 v3, figures as its authors' runs recorded them."""
    text = (resources.files(__package__) / "assets" / "paper_curves.json").read_text("utf-8")
    return {
        name: PaperCurve(
            name, entry["examples"], tuple(entry["accuracy"]), tuple(entry["disagreement"])
        )
        for name, entry in json.loads(text)["sets"].items()
    }


def paper_curve(name: str) -> PaperCurve:
    """The curve of that name. Raises UnknownNameError with the nearest names."""
    curves = paper_curves()
    if name not in curves:
        raise unknown_name("recorded curve of the paper", name, curves)
    return curves[name]
