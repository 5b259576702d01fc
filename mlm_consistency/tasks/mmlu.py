"""MMLU in its original CSV files: DATA_DIR/{dev,val,test}/SUBJECT_{dev,val,test}.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from mlm_consistency.conditionals import TextExample
from mlm_consistency.errors import DataError
from mlm_consistency.tasks.config import TaskConfig
from mlm_consistency.tasks.example_source import (
    Dropped,
    ExampleSource,
    Located,
    SourceRow,
    read_text,
)

LETTERS = "ABCD"
COLUMNS = 1 + len(LETTERS) + 1  # question, four options, letter
SHOTS = 5
FIRST_ROW_LOST = "first row of its file, taken for a header as in the paper"
_NAMES = """
abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology
college_chemistry college_computer_science college_mathematics college_medicine college_physics
computer_security conceptual_physics econometrics electrical_engineering elementary_mathematics
formal_logic global_facts high_school_biology high_school_chemistry high_school_computer_science
high_school_european_history high_school_geography high_school_government_and_politics
high_school_macroeconomics high_school_mathematics high_school_microeconomics high_school_physics
high_school_psychology high_school_statistics high_school_us_history high_school_world_history
human_aging human_sexuality international_law jurisprudence logical_fallacies machine_learning
management marketing medical_genetics miscellaneous moral_disputes moral_scenarios nutrition
philosophy prehistory professional_accounting professional_law professional_medicine
professional_psychology public_relations security_studies sociology us_foreign_policy virology
world_religions
"""
SUBJECTS = tuple(_NAMES.split())


class Mmlu(ExampleSource):
    """57 subjects of four-way questions.

    zero_shot  the paper's form: the prompt is the question alone, the candidates are the options'
               texts.
    options    the question with its lettered options and `Answer:`; the candidates are A to D.
    five_shot  the same behind the subject's five dev questions with their answers.

    With `first_row="drop"` the first row of each file is lost, as in the paper's runs, whose
    loader took it for a header. The files have no header.

    Source: Hendrycks et al. 2021, arXiv 2009.03300.
    """

    splits = ("test", "val", "dev")
    subjects = SUBJECTS
    forms = ("zero_shot", "options", "five_shot")
    expects = "MMLU's data folder: {dev,val,test}/SUBJECT_{dev,val,test}.csv"

    def files(self, config: TaskConfig) -> list[Any]:
        subjects = config.subjects or SUBJECTS
        wanted = [_file(config, subject, config.split or "test") for subject in subjects]
        if config.form == "five_shot":
            wanted += [_file(config, subject, "dev") for subject in subjects]
        return wanted

    def read(self, config: TaskConfig) -> Iterator[SourceRow]:
        split, form = config.split or "test", config.form or "zero_shot"
        for subject in config.subjects or SUBJECTS:
            shots = ""
            if form == "five_shot":
                shots = _shots(_file(config, subject, "dev"), subject)
            file = _file(config, subject, split)
            for number, (place, row) in enumerate(_rows(file)):
                if number == 0 and config.first_row == "drop":
                    yield Dropped(FIRST_ROW_LOST, place)
                    continue
                question, options, label = _split(row, place)
                if form == "zero_shot":
                    prompt, candidates = question, options
                else:
                    prompt, candidates = shots + _lettered(question, options), tuple(LETTERS)
                example = TextExample(
                    f"{subject}/{split}/{number}", prompt, candidates, (label,), subject
                )
                yield Located(example, place)


def _file(config: TaskConfig, subject: str, split: str) -> Any:
    return config.folder / split / f"{subject}_{split}.csv"


def _rows(file: Any) -> Iterator[tuple[str, list[str]]]:
    reader = csv.reader(io.StringIO(read_text(file), newline=""), strict=True)
    line = 0
    try:
        for row in reader:
            # A quoted field may hold line ends: the row begins behind the last one's end.
            place, line = f"{file} line {line + 1}", reader.line_num
            if row:
                yield place, row
    except csv.Error as error:
        raise DataError(f"{file} line {reader.line_num}: not CSV: {error}.") from error
    if line == 0:
        raise DataError(f"{file}: the file is empty. Expected rows of {COLUMNS} columns.")


def _split(row: list[str], place: str) -> tuple[str, tuple[str, ...], int]:
    if len(row) != COLUMNS:
        raise DataError(
            f"{place}: expected {COLUMNS} columns (question, four options, letter). "
            f"Got {len(row)}: {row!r:.120}"
        )
    letter = row[-1].strip()
    if letter not in LETTERS or len(letter) != 1:
        raise DataError(f"{place}: the last column must be A, B, C or D. Got {row[-1]!r}.")
    return row[0], tuple(row[1:-1]), LETTERS.index(letter)


def _lettered(question: str, options: tuple[str, ...]) -> str:
    lines = (f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True))
    return "\n".join((question, *lines, "Answer:"))


def _shots(file: Any, subject: str) -> str:
    shown = []
    for place, row in _rows(file):
        question, options, label = _split(row, place)
        shown.append(f"{_lettered(question, options)} {LETTERS[label]}")
    if len(shown) < SHOTS:
        raise DataError(f"{file}: five_shot needs {SHOTS} rows. Got {len(shown)}.")
    about = subject.replace("_", " ")
    head = f"The following are multiple choice questions (with answers) about {about}."
    return "\n\n".join((head, *shown[:SHOTS], ""))
