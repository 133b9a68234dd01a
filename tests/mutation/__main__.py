"""
Look for mistakes that no test finds: `python -m tests.mutation [--sample 200] [--seed 1] [MODULE ...]`.

Each mutant of a module of the operator meets the quick tests that run the changed line, without an API server. Those
that survive need a test, or a line in `equivalent.yaml` that says why they are no mistake. Exits with 1 when less than
`--least` per cent of the others are found.
"""

import argparse
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import yaml

from tests.mutation.mutants import Mutant, mutants_of, mutated
from tests.mutation.trials import Trials, with_trials

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "operator/charonia_operator"
TESTS = "tests/operator"
EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
_LEAST_SECONDS = 20.0
"""Of a processor: for imports and for collecting tests."""
_LONGEST_STATEMENT = 20
"""Lines. Of a statement only some lines are seen to be run."""


def main() -> int:
    options = _options()
    os.chdir(ROOT)
    sources = {str(path.relative_to(FOLDER)): path.read_text() for path in sorted(FOLDER.rglob("*.py"))}
    equivalent = yaml.safe_load(EQUIVALENT.read_text())
    everything = [
        mutant
        for module, source in sources.items()
        if not options.modules or module in options.modules
        for mutant in mutants_of(source, module)
    ]
    judged = [mutant for mutant in everything if mutant.name not in equivalent]
    sample = random.Random(options.seed).sample(judged, min(options.sample, len(judged)))
    print(f"{len(everything)} mutants, {len(everything) - len(judged)} of them equivalent; {len(sample)} are tried")
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
        os.environ.pop("KUBEBUILDER_ASSETS", None)  # tests with a real API server take too long
        return with_trials(FOLDER, options.tests, lambda trials: _try(sample, sources, trials, options.least))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="such as status/building.py; all by default")
    parser.add_argument("--sample", type=int, default=200, help="so many mutants, chosen by chance")
    parser.add_argument("--seed", type=int, default=1, help="another one gives another sample")
    parser.add_argument("--least", type=float, default=95.0, metavar="PER CENT")
    parser.add_argument("--tests", nargs="*", default=[TESTS], metavar="PATH", help="the tests to try")
    return parser.parse_args()


def _try(sample: Sequence[Mutant], sources: Mapping[str, str], trials: Trials, least: float) -> int:
    tests, survivors = _Tests(trials), []
    for number, mutant in enumerate(sample, 1):
        names = tests.of(mutant)
        limit = _LEAST_SECONDS + 3 * sum(tests.seconds[name] for name in names)
        function = "" if mutant.is_import else mutant.function
        tree = mutated(sources[mutant.module], mutant.number)
        way = trials.verdict(mutant.module, tree, function, names, limit) if names else ""
        if not way:
            survivors.append(mutant)
        print(f"{number}/{len(sample)} {way or 'SURVIVES'}: {mutant.line} {mutant.name}", flush=True)
    found = 100 * (len(sample) - len(survivors)) / max(len(sample), 1)
    print(f"{len(sample) - len(survivors)} of {len(sample)} are found: {found:.1f} %; these are not:")
    for mutant in survivors:
        print(f"  {mutant.line:4} {mutant.name}")
    return 0 if found >= least else 1


class _Tests:
    """Which tests run a line."""

    def __init__(self, trials: Trials) -> None:
        begun = time.monotonic()
        self._of_line: dict[tuple[str, int], list[str]] = defaultdict(list)
        self._of_module: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        for name, (seconds, lines) in trials.lines().items():
            self.seconds[name] = seconds
            for module, line in lines:
                self._of_line[module, line].append(name)
                self._of_module[module].add(name)
        print(f"{len(self.seconds)} tests, which took {time.monotonic() - begun:.0f} s", flush=True)

    def of(self, mutant: Mutant) -> list[str]:
        """The quickest first. For what runs at import, every test of the module."""
        nearest = (self._of_line[mutant.module, mutant.line - above] for above in range(_LONGEST_STATEMENT))
        names: Iterable[str] = next(filter(None, nearest), ())
        if mutant.is_import:
            names = self._of_module[mutant.module]
        return sorted(names, key=lambda name: self.seconds[name])


if __name__ == "__main__":
    sys.exit(main())
