"""Tables to Parquet bytes and back: the same table always gives the same bytes.

Every setting that changes the bytes is fixed here (row group, compression and its level, page
version, dictionaries); nothing like a time is stored. Pages carry checksums, so that a damaged
file is noticed where it is read.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from mlm_consistency.errors import RecordsError
from mlm_consistency.records import schema

_ROW_GROUP = 65536


def to_bytes(table: pa.Table, fingerprint: str) -> bytes:
    """The table as the bytes of a Parquet file that names its schema and its run's fingerprint."""
    table = table.replace_schema_metadata(
        {
            schema.SCHEMA_KEY: str(schema.SCHEMA_VERSION).encode(),
            schema.FINGERPRINT_KEY: fingerprint.encode(),
        }
    )
    # A table put together from pieces would be written with other page borders.
    table = table.combine_chunks()
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=_ROW_GROUP,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=True,
        write_statistics=True,
        store_schema=True,
        write_page_checksum=True,
    )
    return sink.getvalue()


def damaged(path: str, error: Exception) -> RecordsError:
    """The error for a file that cannot be read as a shard."""
    reason = (str(error) or repr(error)).splitlines()[0]
    return RecordsError(
        f"{path} is damaged and cannot be read ({reason}). "
        "Remove it and give the score command again: that shard alone is scored anew."
    )


def _check(found: pa.Schema, expected: pa.Schema, fingerprint: str | None, path: str) -> None:
    metadata = found.metadata or {}
    version = metadata.get(schema.SCHEMA_KEY)
    if version is None or int(version) != schema.SCHEMA_VERSION:
        came = "no schema number" if version is None else f"schema {version.decode()}"
        raise RecordsError(
            f"{path} has {came}; this version reads schema {schema.SCHEMA_VERSION}. "
            "Read it with the version that wrote it, or score again into another folder."
        )
    for field in expected:
        place = found.get_field_index(field.name)
        if place < 0:
            raise RecordsError(f"{path} lacks the column {field.name!r} of type {field.type}")
        if found.field(place).type != field.type:
            raise RecordsError(
                f"{path}: column {field.name!r} should be {field.type}, "
                f"it is {found.field(place).type}"
            )
    came_from = metadata.get(schema.FINGERPRINT_KEY, b"").decode()
    if fingerprint is not None and came_from != fingerprint:
        raise RecordsError(
            f"{path} was written by a run of another configuration (fingerprint "
            f"{came_from[:12] or 'absent'}, the manifest has {fingerprint[:12]}): "
            "move it out of the run folder"
        )


def check_footer(data: bytes, expected: pa.Schema, fingerprint: str | None, path: str) -> None:
    """Refuses bytes that are not a whole Parquet file of this schema and this run."""
    try:
        found = pq.read_schema(io.BytesIO(data))
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error
    _check(found, expected, fingerprint, path)


def from_bytes(
    data: bytes,
    expected: pa.Schema,
    path: str,
    *,
    fingerprint: str | None = None,
    columns: list[str] | None = None,
) -> pa.Table:
    """The table in the bytes of a Parquet file.

    Raises:
      RecordsError: names `path` where it is damaged, of another schema, or of another run.
    """
    check_footer(data, expected, fingerprint, path)
    try:
        return pq.read_table(io.BytesIO(data), columns=columns, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error
