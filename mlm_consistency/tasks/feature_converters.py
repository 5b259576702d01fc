"""From rows of our seqio tasks to arrays of fixed shape, with nothing cut in silence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import seqio
import tensorflow as tf

from mlm_consistency.errors import ConfigError

Spec = seqio.FeatureConverter.FeatureSpec
# Carried so that scores find their example again.
_IDS = ("example", "conditional", "candidate")


class _RowConverter(seqio.FeatureConverter):
    """What both forms have in common: no packing, and lengths checked before padding.

    seqio trims rows to the lengths asked for before a converter sees them; the lengths that the
    rows carry show it.

    Raises (while the dataset is read):
      tf.errors.InvalidArgumentError: for a row longer than `task_feature_lengths` allows, naming
        task, example and the length that it needs.
    """

    PACKING_FEATURE_DTYPES: ClassVar[Mapping[str, tf.DType]] = {}
    # task feature -> (model feature, feature that holds its length)
    SEQUENCES: ClassVar[Mapping[str, tuple[str, str]]] = {}
    SCALARS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, pack: bool = False, apply_length_check: bool = True, bos_id: int = 0):
        """Args are seqio's, so that T5X can make one. Raises ConfigError for pack=True."""
        if pack:
            raise ConfigError(
                f"{type(self).__name__} does not pack: one score belongs to one row. Set pack=False"
            )
        super().__init__(pack=False, apply_length_check=apply_length_check, bos_id=bos_id)

    def _convert_features(
        self, ds: tf.data.Dataset, task_feature_lengths: Mapping[str, int]
    ) -> tf.data.Dataset:
        def convert(row: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            padded = {}
            for name, (model_name, length_name) in self.SEQUENCES.items():
                limit = task_feature_lengths[name]
                _check_not_cut(row, name, row[length_name], limit)
                values = row[name][:limit]
                values = tf.pad(values, [[0, limit - tf.shape(values)[0]]])
                padded[model_name] = tf.ensure_shape(values, [limit])
            padded |= {name: row[name] for name in self.SCALARS}
            return self._derive(padded, row, task_feature_lengths)

        return ds.map(convert, num_parallel_calls=tf.data.AUTOTUNE)

    def _derive(
        self,
        padded: dict[str, tf.Tensor],
        row: Mapping[str, tf.Tensor],
        task_feature_lengths: Mapping[str, int],
    ) -> dict[str, tf.Tensor]:
        return padded

    def get_model_feature_lengths(
        self, task_feature_lengths: Mapping[str, int]
    ) -> Mapping[str, int]:
        lengths = {model: task_feature_lengths[n] for n, (model, _) in self.SEQUENCES.items()}
        return lengths | dict.fromkeys(self.SCALARS, 1)


class GroupedFeatureConverter(_RowConverter):
    """One masked prompt and all its candidates, padded; what is padding is told by the lengths.

    A conditional that does not apply has inputs_length 0.
    """

    TASK_FEATURES: ClassVar[Mapping[str, Any]] = {
        name: Spec(dtype=tf.int32)
        for name in ("inputs", "prefix", "candidates", "candidate_lengths")
    }
    SEQUENCES: ClassVar[Mapping[str, tuple[str, str]]] = {
        "inputs": ("encoder_input_tokens", "inputs_length"),
        "prefix": ("decoder_prefix_tokens", "prefix_length"),
        "candidates": ("candidate_tokens", "candidates_length"),
        "candidate_lengths": ("candidate_lengths", "num_candidates"),
    }
    SCALARS: ClassVar[tuple[str, ...]] = (
        "inputs_length",
        "prefix_length",
        "num_candidates",
        *_IDS[:2],
    )
    MODEL_FEATURES: ClassVar[Mapping[str, Any]] = {
        **{model: Spec(dtype=tf.int32) for model, _ in SEQUENCES.values()},
        **{name: Spec(dtype=tf.int32, rank=0) for name in SCALARS},
    }


class FlatFeatureConverter(_RowConverter):
    """T5X's encoder-decoder features for one candidate, with weights on the answer alone.

        inputs                a b c x0 </s>
        targets               x0 y1 y2
        encoder_input_tokens  a b c x0 </s> 0 ..    decoder_target_tokens  x0 y1 y2 0 ..
        decoder_input_tokens  0 x0 y1 y2 ..         decoder_loss_weights    0  1  1 0 ..

    `example`, `conditional` and `candidate` are carried along.
    """

    TASK_FEATURES: ClassVar[Mapping[str, Any]] = {
        "inputs": Spec(dtype=tf.int32),
        "targets": Spec(dtype=tf.int32),
    }
    SEQUENCES: ClassVar[Mapping[str, tuple[str, str]]] = {
        "inputs": ("encoder_input_tokens", "inputs_length"),
        "targets": ("decoder_target_tokens", "targets_length"),
    }
    SCALARS: ClassVar[tuple[str, ...]] = _IDS
    MODEL_FEATURES: ClassVar[Mapping[str, Any]] = {
        **{model: Spec(dtype=tf.int32) for model, _ in SEQUENCES.values()},
        "decoder_input_tokens": Spec(dtype=tf.int32),
        "decoder_loss_weights": Spec(dtype=tf.int32),
        **{name: Spec(dtype=tf.int32, rank=0) for name in SCALARS},
    }

    def _derive(
        self,
        padded: dict[str, tf.Tensor],
        row: Mapping[str, tf.Tensor],
        task_feature_lengths: Mapping[str, int],
    ) -> dict[str, tf.Tensor]:
        limit = task_feature_lengths["targets"]
        targets, weights = padded["decoder_target_tokens"], row["target_loss_weights"][:limit]
        weights = tf.pad(weights, [[0, limit - tf.shape(weights)[0]]])
        return padded | {
            "decoder_input_tokens": tf.concat([[self.bos_id], targets[:-1]], axis=0),
            "decoder_loss_weights": tf.ensure_shape(weights, [limit]),
        }

    def get_model_feature_lengths(
        self, task_feature_lengths: Mapping[str, int]
    ) -> Mapping[str, int]:
        decoder = task_feature_lengths["targets"]
        lengths = super().get_model_feature_lengths(task_feature_lengths)
        return {**lengths, "decoder_input_tokens": decoder, "decoder_loss_weights": decoder}


def _check_not_cut(row: Mapping[str, tf.Tensor], name: str, length: tf.Tensor, limit: int) -> None:
    tf.debugging.Assert(
        length <= limit,
        [
            f"a row is longer than task_feature_lengths[{name!r}] = {limit}: raise it "
            "(TASK_FEATURE_LENGTHS) to the length below. Length, task, example:",
            length,
            row["task"],
            row["example_id"],
        ],
    )
