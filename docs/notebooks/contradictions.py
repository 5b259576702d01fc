# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # From a sentence to its contradictions
#
# A masked language model can be asked the same question in many ways: by masking the answer alone,
# or other parts of the prompt with it. What is masked, the decoder is told, so the model knows the
# same each time, and should answer the same. The small model that ships with the package does not
# always. Nothing is downloaded; a minute on a laptop.

# %%
import itertools

import mlm_consistency as mc
from mlm_consistency.analysis.disagreement import mean_js_divergence
from mlm_consistency.tasks import TaskConfig, load_task

model = mc.load_model("tiny")

# %% [markdown]
# One sentence, four candidates, ten conditionals. Each row is one way of asking; each cell is the
# log-probability of a candidate, in nats a token.

# %%
s = model.score(
    "They all ran to the hospital. Sara finished before Noah, and Noah finished before Mia. "
    "Paul was thinking of the sea. Question: Who finished first? Answer:",
    ["Noah", "Paul", "Mia", "Sara"],
    conditionals=mc.paper_conditionals("mmlu"),
    label=3,
)
s.table()

# %%
answers = [s.candidate_texts[0][c] for c in s.predictions()[0]]
print(dict(zip(s.conditionals, answers, strict=True)))
print("the conditionals contradict each other" if s.disagreement else "they agree")

# %% [markdown]
# Together they can only give one answer. The paper takes for each candidate the best score that
# any conditional gives it; there are other ways.

# %%
for reduction in ("max", "mean_probability", "vote"):
    print(reduction, s.ensemble(reduction).texts[0])

# %% [markdown]
# ## Many sentences
#
# Sixty stories of the task that ships. The disagreement is the share on which the ten answers are
# not all the same.

# %%
task = load_task(TaskConfig(name="stories_choice", encoder_longer_than=20))
stories = list(itertools.islice(task.text_examples(), 60))
many = model.score_all([mc.Question(e.prompt, e.candidates, e.labels[0], e.id) for e in stories])
print(f"disagreement {many.disagreement:.1%}; {many.ensemble('max')}")

# %% [markdown]
# Which of them it contradicts itself on most: mean Jensen-Shannon divergence between the
# conditionals' distributions over the candidates, in nats (0 is agreement, 0.693 the most).

# %%
whole, _ = many.complete()
apart = mean_js_divergence(whole.values())
worst = int(apart.argmax())
story = stories[list(many.example_ids).index(whole.example_ids[worst])]
print(f"{apart[worst]:.3f} nats: {story.prompt}")
whole.table(worst)

# %% [markdown]
# ## The records of a run
#
# `mlm-consistency run --gin_file=gin/runs/tiny_stories.gin` writes the same for whole tasks, with
# intervals, tests and a page to look at. Its records are Parquet files, which any tool reads, a
# line each:
#
# ```python
# pandas.concat(map(pandas.read_parquet, sorted(glob("RUN/records/*.scores.parquet"))))
# polars.read_parquet("RUN/records/*.divergences.parquet")
# duckdb.sql("select first, second, avg(js) from 'RUN/records/*.divergences.parquet' group by all")
# ```
