"""The one case of real processes that every run of the tests takes; the others are marked slow."""

from __future__ import annotations

import process_trials
from test_several_processes import KILLED, bytes_of, ended_well, origins, run_trials


def test_one_of_two_is_killed_and_one_goes_on_to_the_bytes_of_one(tmp_path):
    trials = run_trials(tmp_path, 0, "few")
    killed = trials["process 1 killed"]
    first = killed["first"]
    assert first["statuses"] == [75, KILLED], first["said"]
    assert "process 1 of 2 is gone" in first["said"][0]
    assert first["apart"] < 60, "within a minute"
    assert 0 < len(killed["whole"]) < process_trials.SHARDS
    ended_well(killed["second"])
    assert bytes_of(killed) == bytes_of(trials["one process"])
    assert {origin["processes"] for origin in origins(killed)} == {2, 1}
