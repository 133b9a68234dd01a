import threading

from hypothesis import given
from hypothesis import strategies as st

from charonia_operator.queue import Need, WorkQueue
from tests.support.operator_process import eventually

A, B = ("default", "a"), ("default", "b")


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def a_queue():
    clock = Clock()
    return WorkQueue(clock, jitter=lambda: 0.0), clock


def test_what_is_added_twice_is_done_once():
    queue, _ = a_queue()
    queue.add(A)
    queue.add(A)

    assert queue.take(wait=False) == A
    assert queue.take(wait=False) is None


def test_a_key_is_never_worked_on_twice_at_a_time():
    """What is added meanwhile is done after."""
    queue, _ = a_queue()
    queue.add(A)
    assert queue.take(wait=False) == A
    queue.add(A)
    queue.add(B)

    assert queue.take(wait=False) == B
    assert queue.take(wait=False) is None
    queue.done(A)
    assert queue.take(wait=False) == A


def test_failures_are_tried_later_and_later():
    queue, clock = a_queue()
    queue.add(A)
    pauses = []
    for _ in range(12):
        since = clock.now
        while queue.take(wait=False) is None:
            clock.now += 0.25
        pauses.append(clock.now - since)
        queue.done(A, failed=True)

    assert pauses[1:5] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == 300.0


def test_the_longest_pause_is_the_callers():
    queue, clock = a_queue()
    for _ in range(9):
        queue.add(A)
        clock.now += 1000
        queue.take(wait=False)
        queue.done(A, failed=True, longest=30.0)
    clock.now += 29.0
    assert queue.take(wait=False) is None
    clock.now += 1.0

    assert queue.take(wait=False) == A


def test_a_success_forgets_failures():
    queue, clock = a_queue()
    for failed in (True, True, False, True):
        queue.add(A)
        queue.take(wait=False)
        queue.done(A, failed=failed)
    clock.now += 0.5

    assert queue.take(wait=False) == A


def test_the_earlier_of_two_times_counts():
    queue, clock = a_queue()
    queue.add(A, after=10)
    queue.add(A, after=5)
    queue.add(A, after=20)
    clock.now = 5

    assert queue.take(wait=False) == A
    queue.done(A)
    clock.now = 30
    assert queue.take(wait=False) is None


def test_a_pass_can_ask_for_another():
    queue, clock = a_queue()
    queue.add(A)
    queue.take(wait=False)
    queue.done(A, after=30)

    assert queue.take(wait=False) is None
    clock.now = 30
    assert queue.take(wait=False) == A


def test_what_comes_wakes_one_worker_and_stop_wakes_them_all():
    queue, taken = WorkQueue(), []
    threads = [threading.Thread(target=lambda: taken.append(queue.take()), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(queue._changed._waiters) == 3)

    queue.add(A)
    eventually(lambda: taken == [A])
    queue.stop()
    for thread in threads:
        thread.join(10)

    assert taken == [A, None, None]
    assert queue.take() is None


@given(st.lists(st.tuples(st.sampled_from("atdfw"), st.sampled_from([A, B]), st.integers(0, 3)), max_size=60))
def test_nothing_added_is_lost(steps):
    """Whatever happens, each key that was added is taken after its last addition."""
    queue, clock = a_queue()
    running, owed = set(), set()
    for step, key, pause in steps:
        if step == "a":
            queue.add(key, after=pause)
            owed.add(key)
        elif step == "t":
            taken = queue.take(wait=False)
            assert taken not in running
            if taken:
                running.add(taken)
                owed.discard(taken)
        elif step in "df" and key in running:
            running.discard(key)
            queue.done(key, failed=step == "f")
        elif step == "w":
            clock.now += pause
    for key in running:
        queue.done(key)
    clock.now += 1000
    while (taken := queue.take(wait=False)) is not None:
        owed.discard(taken)
        queue.done(taken)

    assert owed == set()


def test_what_somebody_waits_for_comes_first():
    queue, clock = a_queue()
    names = {need: ("default", need.name) for need in Need}
    for need in (Need.ROUTINE, Need.NEWS, Need.CHANGE):
        queue.add(names[need], need=need)

    assert [queue.take(wait=False) for _ in Need] == [names[Need.CHANGE], names[Need.NEWS], names[Need.ROUTINE]]

    queue.add(A, need=Need.ROUTINE)
    queue.add(B, need=Need.NEWS)
    queue.add(A, need=Need.CHANGE)
    assert queue.take(wait=False) == A, "more pressing now than when it was added"
    assert queue.take(wait=False) == B
    assert queue.take(wait=False) is None
    clock.now += 1000
    assert queue.take(wait=False) is None


def test_nothing_waits_for_ever_behind_what_is_more_pressing():
    queue, clock = a_queue()
    queue.add(A, need=Need.ROUTINE)
    taken = []
    while A not in taken:
        queue.add(B, need=Need.CHANGE)
        taken.append(queue.take(wait=False))
        queue.done(taken[-1])
        clock.now += 1.0

    assert len(taken) <= Need.ROUTINE.value + 2
