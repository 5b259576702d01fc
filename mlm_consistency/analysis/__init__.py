"""What it means: NumPy and SciPy on records; imports neither JAX nor TensorFlow.

- scores: what every analysis reads, from a run's records or from arrays
- predictions, disagreement: argmax, ties, how often conditionals differ
- ensembles: many conditionals' scores -> one score a candidate
- first_tokens: how far apart the conditionals are over the whole vocabulary
- curve: accuracy and disagreement against the number of conditionals
- statistics: bootstrap intervals, exact McNemar, Holm
- folds, fitted, selection: ensembles fitted to right answers, cross-fitted
- gains: what each ensemble gains, whether that is real, and what it costs
- confidence, bias, clustering, breakdown: when to trust, what is preferred, who goes together
- summary, summary_file: all of these for a task -> summary.json
- compare, compare_text, entrants, paper: runs beside one another and the paper's figures
"""
