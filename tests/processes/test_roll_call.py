"""The roll call by itself: several of them in one process, over real connections."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

from mlm_consistency.cli import roll_call
from mlm_consistency.cli.roll_call import RollCall, RunEndedError


class Member:
    """A roll call and what became of it."""

    def __init__(self, index: int, count: int) -> None:
        self.stopped = threading.Event()
        self.ended = threading.Event()
        self.call = RollCall(index, count, self.stopped.set, lambda end: self.ended.set())

    def vanish(self) -> None:
        """What the system does with the connections of a process that is killed.

        Its threads, which live on here, would tell of the first broken line on the next.
        """
        self.call._over = True
        for line in self.call._lines:
            with contextlib.suppress(OSError):
                line.connection.shutdown(socket.SHUT_RDWR)
            line.connection.close()
        self.call._left.set()


@pytest.fixture
def team(monkeypatch):
    """Makes members that have found one another."""
    monkeypatch.setattr(roll_call, "GRACE", 0.2)
    monkeypatch.setattr(roll_call, "BEAT", 0.05)
    made: list[Member] = []

    def make(count: int) -> list[Member]:
        made.extend(Member(index, count) for index in range(count))
        listener, port = RollCall.listen()
        calls = [
            threading.Thread(target=member.call.call, args=("localhost", port))
            for member in made[1:]
        ]
        for thread in calls:
            thread.start()
        made[0].call.accept(listener)
        for thread in calls:
            thread.join()
        return made

    yield make
    for member in made:
        member.call.leave()
        member.vanish()


def in_threads(members, work):
    """`work(member)` of all at once; what each returned."""
    results = {}

    def one(member):
        results[member.call.index] = work(member)

    threads = [threading.Thread(target=one, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    return [results[member.call.index] for member in members]


def test_all_hear_what_process_0_says_meeting_after_meeting(team):
    members = team(4)

    def work(member):
        first = member.call.meet({"stories": [0, 2]} if member.call.index == 0 else None)
        return first, member.call.meet(member.call.index)

    assert in_threads(members, work) == [({"stories": [0, 2]}, 0)] * 4


def test_nobody_goes_on_before_the_last_has_come(team):
    members = team(3)
    through = threading.Event()
    early = [
        threading.Thread(target=lambda m=m: (m.call.meet(), through.set())) for m in members[:2]
    ]
    for thread in early:
        thread.start()
    assert not through.wait(0.3)
    members[2].call.meet()
    for thread in early:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("leaver", [0, 1])
def test_a_last_word_reaches_all_with_its_status(team, leaver):
    members = team(3)
    others = [member for member in members if member.call.index != leaver]
    members[leaver].call.leave(2, "the data are damaged")
    for member in others:
        end = member.call.verdict(5)
        assert (end.process, end.status, end.why) == (leaver, 2, "the data are damaged")
        assert member.stopped.wait(5), "the main thread is asked first"
        with pytest.raises(RunEndedError, match="the data are damaged"):
            member.call.meet()
        assert member.ended.wait(5), "and the process ended where it does not answer"


def test_who_leaves_in_time_is_not_ended(team, monkeypatch):
    members = team(2)
    monkeypatch.setattr(roll_call, "GRACE", 2.0)
    members[1].call.leave(75, "preempted")
    assert members[0].stopped.wait(5)
    members[0].call.leave(75, "preempted too")
    assert not members[0].ended.wait(2.3)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_process_that_vanishes_ends_the_others_with_75(team, lost):
    members = team(3)
    others = [member for member in members if member.call.index != lost]
    members[lost].vanish()
    for member in others:
        end = member.call.verdict(5)
        assert (end.process, end.status) == (lost, 75)
        assert f"process {lost} of 3 is gone (killed, or its machine" in end.why
        assert "goes on from there" in end.why
        assert member.ended.wait(5)


def test_silence_counts_as_gone(team, monkeypatch):
    monkeypatch.setattr(roll_call, "SILENCE", 0.4)
    members = team(2)
    assert members[0].call.verdict(0.8) is None, "signs of life come on time"
    members[1].call._left.set()  # no more of them, and its connection stays open
    assert "nothing heard of it" in members[0].call.verdict(5).why


def test_after_the_last_meeting_nobody_is_missed(team):
    members = team(3)
    in_threads(members, lambda member: member.call.meet(last=True))
    members[1].vanish()
    members[0].vanish()
    time.sleep(0.3)
    assert [member.call.end for member in members] == [None] * 3


def test_strangers_are_not_counted():
    first, second = Member(0, 2), Member(1, 2)
    listener, port = RollCall.listen()
    accepting = threading.Thread(target=first.call.accept, args=(listener,))
    accepting.start()
    for words in (b"GET / HTTP/1.1\r\n\r\n", b'{"magic": "another", "process": 1}\n', b""):
        with socket.create_connection(("localhost", port)) as stranger:
            stranger.sendall(words)
    second.call.call("localhost", port)
    accepting.join(5)
    assert not accepting.is_alive()
    assert [line.process for line in first.call._lines] == [1]
    for member in (first, second):
        member.call.leave()


def test_who_does_not_come_is_named(monkeypatch):
    """With status 75: JAX's service has seen all of them, so they were killed since."""
    monkeypatch.setattr(roll_call, "JOIN", 0.3)
    monkeypatch.setattr(roll_call, "REFUSED", 0.1)
    listener, port = RollCall.listen()
    with pytest.raises(RunEndedError, match=r"processes \[1, 2\] of 3 have not found") as late:
        Member(0, 3).call.accept(listener)
    with pytest.raises(RunEndedError, match="process 1 cannot reach process 0 at local") as gone:
        Member(1, 3).call.call("localhost", port)
    assert (late.value.exit_status, gone.value.exit_status) == (75, 75)
