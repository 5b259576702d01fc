"""How fast scoring is, against what people use today: workloads, baselines, measurement."""
