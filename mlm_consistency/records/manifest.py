"""What a run was made of, in two groups: its fingerprint and information about it.

The fingerprint is what determines the numbers (model, checkpoint, vocabulary, conditionals, tasks,
packing, dtype): a run is resumed only where all of it is equal. Information (versions, device,
mesh, time, who wrote which shard) may differ between the starts of one run.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from mlm_consistency.errors import RecordsError
from mlm_consistency.records.schema import SCHEMA_VERSION

# A list longer than this many characters is shown by what was added and removed.
_SHOWN = 300


@dataclasses.dataclass(frozen=True)
class TaskEntry:
    """One task of a run: how many examples and shards it has, and what its filters dropped.

    `truncated` counts the prompts that were cut at the left, as asked.
    """

    examples: int
    shards: int
    dropped: Mapping[str, int] = dataclasses.field(default_factory=dict)
    digest: str = ""  # sha256 over the examples' text, so that changed data is noticed
    truncated: int = 0


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a run was made of. `fingerprint` fields must be equal on resume, the rest may differ."""

    model: Mapping[str, Any]  # its name and configuration
    checkpoint: str  # digest of the weights
    vocabulary: str  # digest of the vocabulary
    conditionals: tuple[str, ...]
    tasks: Mapping[str, TaskEntry]
    mode: str = ""
    dtype: str = "float32"
    packing: Mapping[str, Any] | str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    schema: int = SCHEMA_VERSION

    # Information: never compared.
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    revision: str = ""
    created: str = ""
    finished: str = ""
    device: str = ""
    mesh: Mapping[str, int] = dataclasses.field(default_factory=dict)
    origins: tuple[Mapping[str, Any], ...] = ()
    information: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    complete: bool = False

    def fingerprint(self) -> dict[str, Any]:
        """The fields that determine the numbers, as plain JSON values."""
        fields = {name: _plain(getattr(self, name)) for name in FINGERPRINT_FIELDS}
        for entry in fields["tasks"].values():
            if not entry["truncated"]:  # as in folders from before it was counted
                del entry["truncated"]
        return fields

    def fingerprint_digest(self) -> str:
        """sha256 of the fingerprint; every shard carries it, so that no stray shard is read."""
        text = json.dumps(self.fingerprint(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> str:
        """The text of manifest.json: {complete, fingerprint: {..}, information: {..}}."""
        information = {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name not in FINGERPRINT_FIELDS and field.name != "complete"
        }
        content = {
            "complete": self.complete,
            "fingerprint": self.fingerprint(),
            "information": information,
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "manifest.json") -> Manifest:
        """Reads what `to_json` wrote.

        Raises:
          RecordsError: names `source` where it is no manifest, or of another schema.
        """
        try:
            content = json.loads(text)
            values = {**content["information"], **content["fingerprint"]}
            schema = values["schema"]
            if schema == SCHEMA_VERSION:
                values["tasks"] = {
                    name: TaskEntry(**entry) for name, entry in values["tasks"].items()
                }
                values["conditionals"] = tuple(values["conditionals"])
                values["origins"] = tuple(values["origins"])
                return cls(**values, complete=content["complete"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordsError(
                f"{source} is not a manifest of a run ({error!r}): take the folder of a run that "
                "`mlm-consistency score` wrote"
            ) from error
        raise RecordsError(
            f"{source} has schema {schema!r}; this version reads schema {SCHEMA_VERSION}. "
            "Read it with the version that wrote it, or score again into another folder."
        )

    def replace(self, **changes: Any) -> Manifest:
        """A manifest with some fields changed."""
        return dataclasses.replace(self, **changes)


FINGERPRINT_FIELDS = (
    "schema",
    "model",
    "checkpoint",
    "vocabulary",
    "conditionals",
    "mode",
    "dtype",
    "tasks",
    "packing",
    "settings",
)


def _plain(value: Any) -> Any:
    """`value` as what JSON gives back: mappings, lists, strings, numbers."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item"):  # a NumPy scalar
        return value.item()
    return str(value)


def differences(before: Manifest, now: Manifest) -> list[str]:
    """What differs between two fingerprints, a line each; empty where a run may be resumed.

    For example `conditionals: ["baseline", "offset_1"] in the run folder, ["baseline"] now`.
    """
    return _differences("", before.fingerprint(), now.fingerprint())


def _differences(name: str, before: Any, now: Any) -> list[str]:
    if isinstance(before, dict) and isinstance(now, dict):
        lines = []
        for key in [*before, *(key for key in now if key not in before)]:
            inner = f"{name}.{key}" if name else key
            if key not in before:
                lines.append(f"{inner}: not in the run folder, {_shown(now[key])} now")
            elif key not in now:
                lines.append(f"{inner}: {_shown(before[key])} in the run folder, absent now")
            else:
                lines += _differences(inner, before[key], now[key])
        return lines
    if before == now:
        return []
    if isinstance(before, list) and isinstance(now, list):
        was, new = _shown(before), _shown(now)
        if len(was) + len(new) > _SHOWN:
            gone = [item for item in before if item not in now]
            come = [item for item in now if item not in before]
            if gone or come:
                return [f"{name}: {_shown(gone)} only in the run folder, {_shown(come)} only now"]
            return [f"{name}: the same {len(now)} entries in another order"]
    return [f"{name}: {_shown(before)} in the run folder, {_shown(now)} now"]


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
