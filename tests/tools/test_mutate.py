"""The tool that makes mistakes on purpose: which it makes, which it leaves alone, and that tests notice them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.forked import PATIENCE_SECONDS

TOOLS = Path(__file__).parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import mutate  # noqa: E402
from mutations import mutated, mutations  # noqa: E402


def changes(source: str) -> dict[str, list[str]]:
    """What stands instead of each text."""
    found: dict[str, list[str]] = {}
    for mutation in mutations("sample", dedent(source)):
        found.setdefault(mutation.before, []).append(mutation.after)
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", ["a <= b"]),
        ("a >= b", ["a > b"]),
        ("a != b", ["a == b"]),
        ("a is None", ["a is not None"]),
        ("a not in b", ["a in b"]),
        ("a + b", ["a - b"]),
        ("a * b", ["a / b"]),
        ("a & b", ["a | b"]),
        ("a and b", ["a or b", "b", "a"]),
        ("not a", ["a"]),
        ("-a", ["a"]),
        ("a[3] is b", ["a[3] is not b", "a[4] is b", "a[2] is b"]),
        ("f(True)", ["f(False)"]),
        ("min(a, b)", ["max(a, b)"]),
        ("a.mean()", ["a.median()"]),
        ("median(a)", ["fmean(a)"]),
        ("sorted(a, key=f)", ["list(a)", "sorted(a)"]),
        ("a.sum(axis=0)", ["a.sum()", "a.sum(axis=1)", "a.sum(axis=-1)"]),
        ("a if c else b", ["a", "b"]),
        ("f'{a}\\n{b}'.encode()", ["f'\\n{b}'.encode()", "f'{a}\\n'.encode()"]),
    ],
)
def test_each_kind_of_mistake_is_made(before: str, after: list[str]) -> None:
    assert changes(f"def f(a, b, c):\n    return {before}\n")[before] == after


def test_a_guard_a_call_and_an_addition_are_left_out() -> None:
    source = """
    def f(a):
        if a.closed:
            return
        a.count += step
        a.close()
    """
    assert changes(source) == {
        "if a.closed:\n    return": ["pass"],
        "a.count += step": ["pass"],
        "a.close()": ["pass"],
    }


def test_words_types_logs_and_decorators_are_left_alone() -> None:
    source = '''
    """Words: 1 < 2."""
    from x import y
    if TYPE_CHECKING:
        import z

    @dataclass(frozen=True)
    class C(Base, gc=False):
        """More words."""
        a: Literal[1, 2]

        def f(self, a: int | None) -> Literal[3]:
            _log.info("%s", 1 + 2)
            raise ValueError(f"{1 + 1} is not {2}")
    '''
    assert changes(source) == {}


def test_the_mistake_is_in_the_source_and_nothing_else_changes() -> None:
    source = "def f(a):\n    return a > 1 and a < 9\n"
    numbers = {mutation.after: mutation.number for mutation in mutations("sample", source)}
    assert mutated(source, numbers["a >= 1"]) == "def f(a):\n    return a >= 1 and a < 9"
    assert mutated(source, numbers["a < 10"]) == "def f(a):\n    return a > 1 and a < 10"


def test_a_sample_is_the_same_for_the_same_seed_and_spread_over_the_modules() -> None:
    pool = {name: mutations(name, "def f(a, b):\n    return a + b < 7 and a * b > 3\n") for name in ("one", "two")}
    chosen = mutate.sample(pool, 6, seed=1)
    assert chosen == mutate.sample(pool, 6, seed=1)
    assert chosen != mutate.sample(pool, 6, seed=2)
    assert [mutation.module for mutation in chosen] == ["one", "two"] * 3
    assert len(mutate.sample(pool, 1000, seed=1)) == sum(map(len, pool.values()))


def test_every_listed_module_exists_and_every_known_survivor_can_still_be_made_and_has_a_reason() -> None:
    listed = mutate.modules()
    assert set(listed.values()) == set(mutate.GROUPS)
    known = mutate.known_survivors()
    named = {module for module, *_ in known}
    assert named <= set(listed)
    possible = {mutation.key for made in mutate.all_mutations(named).values() for mutation in made}
    assert [key for key in known if key not in possible] == []
    assert all(len(reason) > 20 for reason in known.values())


@pytest.mark.soak
def test_a_mistake_that_a_test_notices_is_killed_and_the_checkout_stays_as_it_is() -> None:
    """The rule of publication with `any` for `all`: noticed by the test of each rule, not by that of confidence."""
    script = f"""
    import sys, json, tempfile
    from functools import partial
    from pathlib import Path
    sys.path.insert(0, {str(TOOLS)!r})
    import mutate
    module = "tiltyard.arena.study.publication"
    planted = [one for one in mutate.all_mutations([module])[module] if "rule.met" in one.after]
    (mutation,) = [one for one in planted if one.after.startswith("any(")]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        workers = mutate.Workers(2, Path(folder), libraries=())
        for name in ("each_rule_alone", "confidence"):
            turns = [["tests/arena/test_badges_and_coverage.py", "-k", name]]
            workers.start(partial(mutate.attempt, mutation=mutation, turns=turns), found.append)
        workers.finish()
    print(json.dumps(sorted([one["outcome"], one["by"]] for one in found)))
    """
    source = mutate.path_of("tiltyard.arena.study.publication")
    before = source.read_bytes()
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    (killed, by), (survived, _) = json.loads(done.stdout)
    assert (killed, survived) == ("killed", "survived")
    assert "test_each_rule_alone_keeps_a_board_calibrating_and_says_so" in by
    assert source.read_bytes() == before
