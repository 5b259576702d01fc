"""`mlm-consistency pretrain`: makes the small model that ships."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import gin

from mlm_consistency.cli import gin_files
from mlm_consistency.cli.settings import MACROS, macro
from mlm_consistency.pretraining.batches import BatchShape
from mlm_consistency.pretraining.tiny import PretrainConfig, pretrain
from mlm_consistency.pretraining.training import TrainingConfig

training_config = gin.external_configurable(TrainingConfig, "training")
batch_shape = gin.external_configurable(BatchShape, "batch")
pretrain_config = gin.external_configurable(PretrainConfig, "pretrain", denylist=["folder"])
DESCRIPTION = """\
Trains the small model on generated stories in OUTPUT_DIR (checkpoints, curve.jsonl; started again
it goes on) and writes the best held-out weights to OUTPUT_DIR/tiny as a Hugging Face folder.
"""


def run(argv: list[str]) -> int:
    """The command."""
    others, bindings = gin_files.split_bindings(argv)
    parser = gin_files.parser("pretrain", DESCRIPTION)
    flags = parser.parse_args(others)
    gin_files.load(flags.gin_file, bindings, flags.gin_search_paths, MACROS)
    folder = Path(macro("OUTPUT_DIR", "pretrain"))
    config = pretrain_config(folder=str(folder), training=training_config(), batch=batch_shape())
    params = pretrain(config, log=lambda line: print(line, flush=True))
    write_model(params, config, folder / "tiny")
    return 0


def write_model(params: object, config: PretrainConfig, folder: Path) -> None:
    """The weights as a Hugging Face folder, with the run's configuration beside them."""
    from mlm_consistency.checkpoints.convert import save

    conversion = save(params, config.model, str(folder), "huggingface")
    with (folder / "pretraining.json").open("w") as file:
        made_of = {k: v for k, v in dataclasses.asdict(config).items() if k != "folder"}
        json.dump(made_of | {"digest": conversion.digest}, file, indent=1)
    print(f"{conversion.parameters} parameters in {folder}")
