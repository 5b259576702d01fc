"""Ask one masked language model for the same distribution through many masking patterns."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["MaskedModel", "Model", "Question", "load_model", "paper_conditionals"]


def __getattr__(name: str) -> Any:
    # Read when asked for, so that importing the package brings in neither JAX nor TensorFlow.
    if name == "paper_conditionals":
        from mlm_consistency.conditionals import paper_conditionals

        return paper_conditionals
    if name in __all__:
        from mlm_consistency import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
