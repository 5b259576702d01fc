"""WHO answers: Flax networks and their configurations; no input or output."""
