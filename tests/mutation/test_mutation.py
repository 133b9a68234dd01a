"""The tool finds the places that it is to change, changes one at a time, and tells mutants that a test finds."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants_of, mutated

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
"""A docstring."""
_log = get(__name__)
LIMIT = 3

class Asked(Protocol):
    limit = 4

class Counter:
    def count(self, most: int = 5) -> str:
        """A docstring."""
        _log.info("counts %d", 6)
        self.total = most
        if most < LIMIT and not self.done:
            return call(key=self.total)
        raise Fault(f"no {LIMIT}", "several words", Reason.SYNCING)
'''
CHANGES = [
    ("", True, "3 -> 4"),
    ("", True, "3 -> 2"),
    ("Counter.count", True, "5 -> 6"),
    ("Counter.count", True, "5 -> 4"),
    ("Counter.count", False, "self.total = most -> removed"),
    ("Counter.count", False, "if most < LIMIT and (not self.done): -> if not (most < LIMIT and (not self.done)):"),
    ("Counter.count", False, "most < LIMIT and (not self.done) -> most < LIMIT or not self.done"),
    ("Counter.count", False, "most < LIMIT -> most <= LIMIT"),
    ("Counter.count", False, "not self.done -> self.done"),
    ("Counter.count", False, "call(key=self.total) -> call()"),
    ("Counter.count", False, "raise Fault(f'no {LIMIT}', 'several words', Reason.SYNCING) -> removed"),
    ("Counter.count", False, "Reason.SYNCING -> Reason.POD_FAILED"),
]


def test_the_places_of_a_module():
    mutants = mutants_of(SOURCE, "counter.py")

    assert [(each.function, each.is_import, each.change) for each in mutants] == CHANGES
    assert mutants[-1].name == "counter.py: Counter.count: Reason.SYNCING -> Reason.POD_FAILED"


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_one_change_at_a_time(number):
    before, after = (ast.unparse(tree).splitlines() for tree in (ast.parse(SOURCE), mutated(SOURCE, number)))

    assert len(before) == len(after)
    assert len([line for line, other in zip(before, after, strict=True) if line != other]) == 1


@pytest.mark.parametrize(
    ("module", "tests", "found"),
    [("queue.py", "tests/operator/test_queue.py", 100.0), ("queue.py", "tests/operator/test_merging.py", 0.0)],
)
def test_mutants_that_tests_find_and_do_not_find(module, tests, found):
    command = [sys.executable, "-m", "tests.mutation", module, "--sample=3", "--seed=2", "--tests", tests]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert f"of 3 are found: {found} %" in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == (0 if found else 1)
