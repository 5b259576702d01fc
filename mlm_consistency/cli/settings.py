"""Gin bindings -> the frozen dataclasses of the library. Everything is checked here, once."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

import gin

from mlm_consistency.conditionals import Conditional, check_mode, parse_conditionals
from mlm_consistency.errors import ConfigError
from mlm_consistency.models.config import T5Config
from mlm_consistency.models.presets import PRESETS, preset
from mlm_consistency.scoring.beams import BeamConfig
from mlm_consistency.scoring.mesh import MeshConfig
from mlm_consistency.scoring.shapes import PackingConfig
from mlm_consistency.tables import unknown_name
from mlm_consistency.tasks import PAPER_TASKS, TASKS, TaskConfig, paper_task

# Every macro that is read, with its default. None: must be given where a command needs it.
MACROS: dict[str, Any] = {
    "MIXTURE_OR_TASK_NAME": None,
    "TASK_FEATURE_LENGTHS": {"inputs": 1024, "targets": 512},
    "DATA_DIR": None,
    "CONDITIONALS": "mmlu",
    "MODE": None,
    "FAMILY": None,
    "MODEL": None,
    "CHECKPOINT_PATH": None,
    "VOCABULARY": None,
    "VOCABULARY_EXTRA_IDS": None,
    "OUTPUT_DIR": None,
    "MESH_SHAPE": (0, 1),
    "SHARD_WEIGHTS_OVER_DATA": False,
    "DIVERGENCE": True,
    "TENSORBOARD": True,
    "COMPUTE_DTYPE": "float32",
    "PARAMETER_DTYPE": "float32",
    "COMPILATION_CACHE": "beside",
}
TASK_SCOPE = re.compile(r"^([^\s#]+)/task\.", re.MULTILINE)
SHIPPED = ("stories_choice", "stories_last_word")


@dataclasses.dataclass(frozen=True)
class ScoreConfig:
    """What `score` does.

    Attributes:
      tasks: what is asked.
      conditionals: how it is masked, the baseline first.
      checkpoint_path: weights; "tiny" for those that ship.
      vocabulary: its path, or "tiny".
      vocabulary_extra_ids: sentinels to add; None: what the vocabulary says.
      output_dir: the run folder.
      model: architecture; None: recognised from the checkpoint.
      mode: UL2's mode word; "" for none.
      family: t5, ul2 or flan: what prompts look like.
      mesh: devices.
      packing: rows and shards.
      beams: how candidates are searched for, where a task has none of its own.
      dtype: of activations.
      param_dtype: of weights.
      divergence: compare the conditionals' first tokens over the whole vocabulary.
      tensorboard: write speeds into the run folder's `logs`, for TensorBoard.
      compilation_cache: folder of JAX's persistent cache; "beside": in the folder that holds the
        run folder; "": off.
    """

    tasks: tuple[TaskConfig, ...]
    conditionals: tuple[Conditional, ...]
    checkpoint_path: str
    vocabulary: str
    output_dir: str
    vocabulary_extra_ids: int | None = None
    model: T5Config | None = None
    mode: str = ""
    family: str = "t5"
    mesh: MeshConfig = dataclasses.field(default_factory=MeshConfig)
    packing: PackingConfig = dataclasses.field(default_factory=PackingConfig)
    beams: BeamConfig = dataclasses.field(default_factory=BeamConfig)
    dtype: str = "float32"
    param_dtype: str = "float32"
    divergence: bool = True
    tensorboard: bool = True
    compilation_cache: str = "beside"


packing_config = gin.external_configurable(PackingConfig, "packing")
beam_config = gin.external_configurable(BeamConfig, "beams")


@gin.configurable("task")
def task_config(
    name: str,
    data_dir: str | None = None,
    split: str | None = None,
    subjects: tuple[str, ...] | None = None,
    form: str | None = None,
    first_row: str | None = None,
    encoder_longer_than: int | None = None,
    candidates_shorter_than: int | None = None,
    max_prompt_tokens: int | None = None,
    limit: int | None = None,
    beams: str | None = None,
    last_words: str | None = None,
) -> TaskConfig:
    """A task by name, or one of the paper's, with what gin binds laid over it.

    Bindings of one task alone carry its name: `mmlu/task.limit = 100`.

    Raises:
      UnknownNameError: if there is no such task.
      ConfigError: if it reads files and DATA_DIR is not set.
    """
    given = {key: value for key, value in locals().items() if value is not None and key != "name"}
    if name not in TASKS and name not in PAPER_TASKS:
        raise unknown_name("task (MIXTURE_OR_TASK_NAME)", name, (*TASKS, *PAPER_TASKS))
    if name in SHIPPED:
        given.pop("data_dir", None)
    elif not given.get("data_dir"):
        what = "your .jsonl file" if name == "jsonl" else "the folder that holds them"
        raise ConfigError(f"task {name!r} reads files: set DATA_DIR to {what}")
    if name in PAPER_TASKS:
        given = {"label": name, **given}
        return dataclasses.replace(paper_task(name, given["data_dir"]), **given)
    return TaskConfig(name=name, **given)


def macro(name: str, required_by: str = "") -> Any:
    """The value of a macro.

    Raises:
      ConfigError: if `required_by` a command and not given.
    """
    # A copy, because gin reads references (`OUTPUT_DIR = %NAME`) where it copies.
    value = copy.deepcopy(gin.query_parameter(f"%{name}"))
    # "" too: a shell variable that is not set gives it, and a folder "" would be the root.
    if value in (None, "") and required_by:
        raise ConfigError(
            f"{name} is not set, and {required_by} needs it: put it in a gin file or give "
            f"--gin.{name}=..."
        )
    return value


def family_of(model: str | None) -> str:
    """What prompts of a model look like: Flan's have no sentinels, UL2's a mode word.

    Args:
      model: its name, or the path of its checkpoint ("/models/flan-t5-base").
    """
    words = set(re.split(r"[^a-z0-9]+", (model or "").lower()))
    if "flan" in words:
        return "flan"
    return "ul2" if "ul2" in words or model == "tiny" else "t5"


def task_names() -> tuple[str, ...]:
    """MIXTURE_OR_TASK_NAME as a tuple of names."""
    names = macro("MIXTURE_OR_TASK_NAME", "a task")
    names = (names,) if isinstance(names, str) else tuple(names)
    if len(set(names)) != len(names):
        raise ConfigError(f"MIXTURE_OR_TASK_NAME names a task twice: {names}")
    return names


def task_configs() -> tuple[TaskConfig, ...]:
    """The tasks of the run, each under its own gin scope.

    Raises:
      UnknownNameError: for a binding under the name of no task, which gin would never read.
    """
    known = (*TASKS, *PAPER_TASKS)
    for scope in TASK_SCOPE.findall(gin.config_str()):
        if scope not in known:
            raise unknown_name("task (the name before /task)", scope, known)
    configs = []
    for name in task_names():
        with gin.config_scope(name):
            bound = _is_bound(f"{name}/task.data_dir") or _is_bound("task.data_dir")
            configs.append(task_config(name, **({} if bound else {"data_dir": macro("DATA_DIR")})))
    return tuple(configs)


def packing_from_gin() -> PackingConfig:
    """PackingConfig, its longest rows from TASK_FEATURE_LENGTHS unless bound themselves."""
    lengths = macro("TASK_FEATURE_LENGTHS") or {}
    if not isinstance(lengths, Mapping):
        raise ConfigError(
            "TASK_FEATURE_LENGTHS must be a mapping like {'inputs': 1024, 'targets': 512}, "
            f"came {lengths!r}"
        )
    unknown = set(lengths) - {"inputs", "targets"}
    if unknown:
        raise ConfigError(
            f"TASK_FEATURE_LENGTHS has {sorted(unknown)}; expected inputs (longest encoder row) "
            "and targets (longest decoder tree)"
        )
    fields = {"inputs": "max_encoder_length", "targets": "max_decoder_length"}
    bound = {fields[key]: value for key, value in lengths.items()}
    explicit = {name for name in fields.values() if _is_bound(f"packing.{name}")}
    return packing_config(**{k: v for k, v in bound.items() if k not in explicit})


def _is_bound(parameter: str) -> bool:
    try:
        gin.query_parameter(parameter)
    except ValueError:
        return False
    return True


def score_config() -> ScoreConfig:
    """The run that gin's macros describe.

    Raises:
      ConfigError: naming the macro that is missing or wrong.
    """
    shape, split = macro("MESH_SHAPE"), macro("SHARD_WEIGHTS_OVER_DATA")
    if not (
        isinstance(shape, tuple | list) and len(shape) == 2 and all(type(n) is int for n in shape)
    ):
        raise ConfigError(f"MESH_SHAPE must be (data, model), came {shape!r}")
    divergence, tensorboard = macro("DIVERGENCE"), macro("TENSORBOARD")
    switches = {
        "SHARD_WEIGHTS_OVER_DATA": split, "DIVERGENCE": divergence, "TENSORBOARD": tensorboard,
    }  # fmt: skip
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ConfigError(f"{name} must be True or False, came {value!r}")
    model_name = macro("MODEL")
    checkpoint = macro("CHECKPOINT_PATH", "score")
    dtype, param_dtype = macro("COMPUTE_DTYPE"), macro("PARAMETER_DTYPE")
    if model_name and model_name not in (*PRESETS, "tiny"):
        raise unknown_name("model (MODEL)", model_name, (*PRESETS, "tiny"))
    model = preset(model_name) if model_name and model_name != "tiny" else None
    family = macro("FAMILY") or family_of(model_name or checkpoint)
    return ScoreConfig(
        tasks=task_configs(),
        conditionals=parse_conditionals(macro("CONDITIONALS")),
        checkpoint_path=checkpoint,
        vocabulary=macro("VOCABULARY", "score"),
        vocabulary_extra_ids=macro("VOCABULARY_EXTRA_IDS"),
        output_dir=macro("OUTPUT_DIR", "score"),
        model=model,
        mode=check_mode(macro("MODE"), family),
        family=family,
        mesh=MeshConfig(shape[0], shape[1], shard_weights_over_data=split),
        packing=packing_from_gin(),
        beams=beam_config(),
        dtype=dtype,
        param_dtype=param_dtype,
        divergence=divergence,
        tensorboard=tensorboard,
        compilation_cache=macro("COMPILATION_CACHE") or "",
    )
