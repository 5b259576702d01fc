"""lm-evaluation-harness asks our scorer.

requests   the harness' requests -> contexts with their continuations
answers    scores under several conditionals -> the two numbers that the harness wants
scorer     contexts -> scores, by the loop that scores runs
lm         the model `mlm_consistency` of the harness; alone imports lm_eval

    mlm-consistency lm-eval --model mlm_consistency \\
      --model_args checkpoint=tiny,conditionals=mmlu,ensemble=max --tasks arc_challenge
"""
