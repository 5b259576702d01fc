"""Tasks: what is asked. Files of a benchmark -> checked text examples -> ids under conditionals.

TaskConfig, load_task, Task       one benchmark as configured
paper_task, PAPER_TASKS           the configurations behind the paper's figures
EncodedExamples, Survey           after the filters; what was dropped, unknown, repeated, and why
TASKS                             the table of tasks

`tasks.seqio_tasks` registers the same tasks with seqio; it alone imports TensorFlow.
"""

from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.encoded import EncodedExamples, ExampleLengths, Survey, example_lengths
from mlm_consistency.tasks.names import PAPER_TASKS, TASKS, paper_task
from mlm_consistency.tasks.task import Task, load_task

__all__ = [
    "PAPER_TASKS",
    "TASKS",
    "EncodedExamples",
    "ExampleLengths",
    "Survey",
    "Task",
    "TaskConfig",
    "example_lengths",
    "load_task",
    "paper_task",
]
