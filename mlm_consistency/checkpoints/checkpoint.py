"""A checkpoint on disk or in a bucket, its form recognised from its files."""

from __future__ import annotations

import dataclasses
import importlib.resources
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlm_consistency.checkpoints.addresses import Folder
from mlm_consistency.checkpoints.leaves import Leaf
from mlm_consistency.checkpoints.naming import unstacked
from mlm_consistency.errors import CheckpointError, ConfigError
from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import T5Config
from mlm_consistency.tables import lookup

# Adding a form: 1. a `Form` in a module of its own; 2. a line here, in the order of asking;
# 3. an example of it in tests/checkpoints/forms.py.
FORMS = {
    "huggingface-bert": "mlm_consistency.checkpoints.huggingface_bert:FORM",
    "huggingface": "mlm_consistency.checkpoints.huggingface:FORM",
    "orbax-bert": "mlm_consistency.checkpoints.bert_weights:ORBAX",
    "orbax": "mlm_consistency.checkpoints.orbax:DATABASE",
    "t5x": "mlm_consistency.checkpoints.t5x:FORM",
    "orbax-loose": "mlm_consistency.checkpoints.orbax:LOOSE",
}
SHIPPED = "tiny"
ARCHITECTURE = "architecture.json"


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Weights under our names, none of them read yet.

    Attributes:
      address: where it lies.
      form: a name in `FORMS`, or "memory".
      leaves: canonical name -> leaf, one a layer, in the order of the names.
      config: what a `config.json` or `architecture.json` beside the weights says, or None; a
        `BertConfig` for the BERT family, whose weights `checkpoints.bert_weights` restores.
    """

    address: str
    form: str
    leaves: Mapping[str, Leaf]
    config: T5Config | BertConfig | None = None

    @property
    def parameter_count(self) -> int:
        """Number of weights in all leaves."""
        return sum(leaf.size for leaf in self.leaves.values())


@dataclasses.dataclass(frozen=True)
class Form:
    """One way in which checkpoints are written.

    Attributes:
      recognises: whether a folder holds such a checkpoint, from the names of its files.
      open_folder: opens it; raises `CheckpointError` where it is damaged.
    """

    recognises: Callable[[Folder], bool]
    open_folder: Callable[[Folder], Checkpoint]


def natural(name: str) -> list[tuple[int, Any]]:
    """Sorts `layers_2` before `layers_10`."""
    parts = name.replace("_", ".").split(".")
    return [(0, int(part)) if part.isdigit() else (1, part) for part in parts]


def checkpoint_of(
    folder: Folder,
    form: str,
    leaves: Iterable[Leaf],
    config: T5Config | None = None,
) -> Checkpoint:
    """A checkpoint of these leaves, stacked ones taken apart.

    Raises:
      CheckpointError: if there is none, or two bear the same name.
    """
    named: dict[str, Leaf] = {}
    for leaf in leaves:
        for single in unstacked(leaf):
            if single.name in named:
                raise CheckpointError(
                    f"{folder.address}: {single.source} and {named[single.name].source} are both "
                    f"{single.name}"
                )
            named[single.name] = single
    if not named:
        raise CheckpointError(f"{folder.address} looks like {form}, but holds no weights")
    ordered = {name: named[name] for name in sorted(named, key=natural)}
    return Checkpoint(folder.address, form, ordered, config)


def read_architecture(folder: Folder) -> T5Config | None:
    """The configuration in the `architecture.json` that our writers leave, or None.

    Raises:
      CheckpointError: if the file does not describe a network.
    """
    if not folder.holds(ARCHITECTURE):
        return None
    try:
        return T5Config(**folder.read_json(ARCHITECTURE))
    except (TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder.address}/{ARCHITECTURE}: {error}") from error


def shipped(name: str = SHIPPED) -> str:
    """The folder of the model that comes with this package."""
    assets = importlib.resources.files("mlm_consistency.pretraining") / "assets" / name
    return os.fspath(assets)  # type: ignore[call-overload]


def open_checkpoint(address: str) -> Checkpoint:
    """Opens the checkpoint at `address`, whatever form it has; reads descriptions alone.

    Args:
      address: a folder (local, `gs://`, `s3://`): a T5X step folder or its `checkpoint` file, an
        Orbax folder, a Hugging Face folder; or "tiny", the model that ships.

    Raises:
      CheckpointError: if nothing is there, no form fits, or files are damaged.
    """
    folder = Folder(shipped() if address == SHIPPED else str(address))
    if folder.path is not None:
        if not os.path.exists(folder.path):
            raise CheckpointError(
                f"checkpoint {address!r}: no such folder. Expected a T5X, Orbax or Hugging Face "
                f"folder, a gs:// address, or {SHIPPED!r} for the model that ships"
            )
        if os.path.isfile(folder.path):
            folder = folder.parent()
    elif folder.name == "checkpoint":
        folder = folder.parent()
    for name in FORMS:
        form: Form = lookup(FORMS, name, "form of checkpoint")
        if form.recognises(folder):
            return form.open_folder(folder)
    raise CheckpointError(f"checkpoint {address!r}: no form fits. {_steps(folder)}")


def _steps(folder: Folder) -> str:
    """What to do about a folder of no known form: name a step below it, where there are some."""
    expected = (
        "Expected a msgpack file `checkpoint` (T5X), `manifest.ocdbt` or `state/manifest.ocdbt` "
        "(Orbax), or `config.json` with *.safetensors (Hugging Face)"
    )
    if folder.path is not None:
        steps = [n for n in os.listdir(folder.path) if n.startswith("checkpoint_")]
        if steps:
            steps = sorted(steps, key=natural)
            return f"It holds steps of a run: name one of {', '.join(steps)}"
        if os.path.exists(os.path.join(folder.path, "config.json")):
            return "Its config.json has no weights beside it: download model.safetensors as well"
    return expected
