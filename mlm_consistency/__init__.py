"""Ask one masked language model for the same distribution through many masking patterns."""

__version__ = "0.1.0"
