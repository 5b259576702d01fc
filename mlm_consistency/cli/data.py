"""`mlm-consistency data list | fetch TASK DATA_DIR | check TASK DATA_DIR`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mlm_consistency.cli.progress import Progress
from mlm_consistency.tasks import TASKS
from mlm_consistency.tasks.archives import (
    FileState,
    Published,
    check_files,
    count_rows,
    fetch,
    published,
    published_tasks,
)

DESCRIPTION = """\
list                    the tasks, and where their files come from
fetch TASK DATA_DIR     gets the official files: https, sha256, resumed, unpacked safely
check TASK DATA_DIR     rows, hashes, what is missing and where to get it
"""
SHOWN = 8


def run(argv: list[str]) -> int:
    """The command; exit status 1 where `check` or `fetch` finds files missing or different."""
    parser = argparse.ArgumentParser(
        prog="mlm-consistency data",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="the tasks and where their files come from")
    for verb, text in (("fetch", "get the official files"), ("check", "look at a data folder")):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("task")
        one.add_argument("data_dir", type=Path)
    flags = parser.parse_args(argv)
    if flags.verb == "list":
        show_tasks()
        return 0
    source = published(flags.task)
    if flags.verb == "fetch":
        states = fetch_with_progress(source, flags.data_dir)
    else:
        states = check_files(source, flags.data_dir)
        for split, count in count_rows(flags.task, flags.data_dir).items():
            print(f"{split}: {count}")
    return show_files(source, states)


def show_tasks() -> None:
    """All tasks; for those with published files their home, licence and number of files."""
    known = set(published_tasks())
    for name in TASKS:
        if name in known:
            source = published(name)
            print(f"{name:<20}{len(source.paths)} files; {source.home} ({source.licence})")
        elif name.startswith("stories_"):
            print(f"{name:<20}ships with the package")
        else:
            print(f"{name:<20}your own file: DATA_DIR names it")


def fetch_with_progress(source: Published, folder: Path) -> list[FileState]:
    """`fetch`, showing MiB as they come."""
    shown: dict[str, Progress] = {}

    def progress(url: str, done: int, total: int | None) -> None:
        if url not in shown:
            shown[url] = Progress(url, (total or done) >> 20, unit="MiB").__enter__()
        bar = shown[url]
        bar.advance((done >> 20) - bar.done)

    try:
        return fetch(source, folder, progress)
    finally:
        for bar in shown.values():
            bar.__exit__(*sys.exc_info())


def show_files(source: Published, states: list[FileState]) -> int:
    """Counts by state, and the files that are not as they should be; 1 if there are any."""
    counts = Counter(state.state for state in states)
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    bad = [state for state in states if state.state in ("missing", "differs")]
    for state in bad[:SHOWN]:
        print(f"  {state.state}: {state.path}")
    if len(bad) > SHOWN:
        print(f"  and {len(bad) - SHOWN} more")
    if bad:
        print(f"get them with `mlm-consistency data fetch {source.task} DATA_DIR`; {source.home}")
    return 1 if bad else 0
