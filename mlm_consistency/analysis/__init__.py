"""What it means: NumPy and SciPy on records; imports neither JAX nor TensorFlow.

- scores: what every analysis reads, from a run's records or from arrays
- predictions, disagreement: argmax, ties, how often conditionals differ
- ensembles: many conditionals' scores -> one score a candidate
- curve: accuracy and disagreement against the number of conditionals
- statistics: bootstrap intervals, exact McNemar, Holm
- summary: all of these for a task -> summary.json
"""
