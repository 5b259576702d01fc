"""Addresses on disks and in buckets; buckets without a network, from a server on this machine."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from bucket_server import serve
from checkpoint_forms import CONFIG, WRITTEN, random_parameters

from mlm_consistency.checkpoints.addresses import Folder, kvstore_spec
from mlm_consistency.checkpoints.architecture import architecture
from mlm_consistency.checkpoints.checkpoint import open_checkpoint
from mlm_consistency.checkpoints.flax_msgpack import pack, unpack
from mlm_consistency.checkpoints.restore import restore
from mlm_consistency.errors import CheckpointError


@pytest.mark.parametrize(
    ("address", "spec"),
    [
        ("/data/ul2/", {"driver": "file", "path": "/data/ul2/"}),
        ("file:///data/ul2", {"driver": "file", "path": "/data/ul2/"}),
        ("gs://t5-data/a/b", {"driver": "gcs", "bucket": "t5-data", "path": "a/b/"}),
        ("gs://t5-data/a/b//", {"driver": "gcs", "bucket": "t5-data", "path": "a/b/"}),
        ("gs://t5-data", {"driver": "gcs", "bucket": "t5-data", "path": ""}),
        ("s3://mine/x", {"driver": "s3", "bucket": "mine", "path": "x/"}),
    ],
)
def test_addresses(address, spec):
    assert kvstore_spec(address) == spec


def test_parts_of_an_address():
    folder = Folder("gs://t5-data/t5x/ul2/checkpoint_2650000/")
    assert folder.address == "gs://t5-data/t5x/ul2/checkpoint_2650000"
    assert folder.name == "checkpoint_2650000"
    assert folder.path is None
    assert folder.at("state").spec["path"] == "t5x/ul2/checkpoint_2650000/state/"
    assert folder.parent().address == "gs://t5-data/t5x/ul2"


@pytest.mark.parametrize("address", ["ftp://x/y", "gs://", "gs:///y", "gs://Bad_Bucket!/y"])
def test_addresses_that_are_none(address):
    with pytest.raises(CheckpointError, match=r"unknown scheme|names no bucket"):
        open_checkpoint(address)


@pytest.mark.parametrize("name", ["t5x", "t5x_orbax", "orbax_loose", "huggingface_sharded"])
def test_a_bucket(name, tmp_path, monkeypatch):
    """Every kind of form from `gs://`: TensorStore's gcs driver against a local server."""
    params = random_parameters(CONFIG)
    WRITTEN[name][1](tmp_path / "models" / "step", params, CONFIG)
    with serve(tmp_path) as (url, requests):
        monkeypatch.setenv("TENSORSTORE_GCS_HTTP_URL", url)
        monkeypatch.setenv("GOOGLE_AUTH_TOKEN_FOR_TESTING", "token")
        checkpoint = open_checkpoint("gs://a-bucket/models/step/")
        restored = restore(checkpoint, architecture(checkpoint))
        jax.tree.map(np.testing.assert_array_equal, restored, params)
        if name == "huggingface_sharded":  # by ranges, never a whole file
            assert all(r for file, r in requests if file.endswith(".safetensors"))
        with pytest.raises(CheckpointError, match="no form fits"):
            open_checkpoint("gs://a-bucket/models/other")


def test_the_writer_s_bucket_and_driver_do_not_matter(tmp_path):
    """T5X leaves a dummy bucket, and the driver of whoever wrote the checkpoint, in its index."""
    params = random_parameters(CONFIG)
    WRITTEN["t5x"][1](tmp_path / "step", params, CONFIG)
    index = tmp_path / "step" / "checkpoint"
    tree = unpack(index.read_bytes(), "index")

    def elsewhere(node):
        if "kvstore" in node:
            path = node["kvstore"]["path"]
            node["kvstore"] = {"driver": "gcs", "bucket": "t5x-dummy-bucket"}
            node["path"] = path  # TensorStore before 0.1.14 kept it here
        else:
            for child in node.values():
                elsewhere(child)

    elsewhere(tree["optimizer"]["target"])
    index.write_bytes(pack(tree))
    restored = restore(open_checkpoint(str(tmp_path / "step")), CONFIG)
    jax.tree.map(np.testing.assert_array_equal, restored, params)
