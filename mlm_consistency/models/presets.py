"""Every published size of T5, T5 1.1, Flan-T5, UL2 and mT5, by name.

Adding one: 1. a line in a table below; 2. `gin/models/NAME.gin`; 3. its parameter count in
tests/checkpoints/test_presets.py.

Sources: arXiv 1910.10683 (T5), arXiv 2010.11934 (mT5), arXiv 2205.05131 (UL2), arXiv 2210.11416
(Flan), and the configurations published beside the weights.
"""

from __future__ import annotations

import dataclasses

from mlm_consistency.models.bert_config import BertConfig
from mlm_consistency.models.config import T5Config
from mlm_consistency.tables import unknown_name

# D, H, K, F, layers of each stack.
Size = tuple[int, int, int, int, int]

T5_SIZES: dict[str, Size] = {
    "small": (512, 8, 64, 2048, 6),
    "base": (768, 12, 64, 3072, 12),
    "large": (1024, 16, 64, 4096, 24),
    "3b": (1024, 32, 128, 16384, 24),
    "11b": (1024, 128, 128, 65536, 24),
}
T5_1_1_SIZES: dict[str, Size] = {
    "small": (512, 6, 64, 1024, 8),
    "base": (768, 12, 64, 2048, 12),
    "large": (1024, 16, 64, 2816, 24),
    "xl": (2048, 32, 64, 5120, 24),
    "xxl": (4096, 64, 64, 10240, 24),
}
UL2_20B: Size = (4096, 16, 256, 16384, 32)

# UL2 was published without the scale of the decoder's last norm; it is read as ones.
WITHOUT_DECODER_NORM = ("ul2_20b", "flan_ul2")


def _config(
    name: str, size: Size, activations: tuple[str, ...], *, tied: bool, vocab_size: int = 32128
) -> T5Config:
    width, heads, head_dim, mlp_dim, layers = size
    return T5Config(
        name=name,
        vocab_size=vocab_size,
        d_model=width,
        num_heads=heads,
        head_dim=head_dim,
        mlp_dim=mlp_dim,
        encoder_layers=layers,
        decoder_layers=layers,
        mlp_activations=activations,
        tied_embeddings=tied,
    )


def _presets() -> dict[str, T5Config]:
    gated, untied = ("gelu", "linear"), ("t5_1_1", "t5_1_1_lm_adapted", "flan_t5")
    sizes = T5_1_1_SIZES.items()
    found = [
        *(_config(f"t5_{s}", size, ("relu",), tied=True) for s, size in T5_SIZES.items()),
        *(_config(f"{f}_{s}", size, gated, tied=False) for f in untied for s, size in sizes),
        *(_config(f"mt5_{s}", size, gated, tied=False, vocab_size=250112) for s, size in sizes),
        *(_config(n, UL2_20B, ("silu", "linear"), tied=True) for n in WITHOUT_DECODER_NORM),
    ]
    return {config.name: config for config in found}


PRESETS: dict[str, T5Config] = _presets()


def preset(name: str) -> T5Config:
    """The configuration of a published size.

    Raises:
      UnknownNameError: if there is none of that name, with the nearest ones.
    """
    if name not in PRESETS:
        raise unknown_name("model", name, PRESETS)
    return PRESETS[name]


def network_fields(config: T5Config | BertConfig) -> dict[str, object]:
    """What decides which weights fit: everything but the name and the data types."""
    fields = dataclasses.asdict(config)
    return {k: v for k, v in fields.items() if k not in ("name", "dtype", "param_dtype")}


def preset_names(config: T5Config) -> list[str]:
    """The published sizes with this network; T5 1.1, LM-adapted and Flan share theirs."""
    wanted = network_fields(config)
    return [name for name, known in PRESETS.items() if network_fields(known) == wanted]
