"""FROM WHERE: T5X, Orbax and Hugging Face checkpoints to sharded arrays, one naming inside.

open_checkpoint(address)        the form is recognised; nothing but descriptions is read
architecture(checkpoint)        which network it is
restore(checkpoint, config)     its weights as (sharded) `jax.Array`s
fingerprint(checkpoint)         which weights they are, cheaply; `digest` reads them all
describe(checkpoint)            leaves, shapes, dtypes, counts
convert(IN, OUT, form)          to "t5x", "orbax" or "huggingface", bit-equal
save(params, config, OUT, form) weights in memory to a checkpoint
"""
