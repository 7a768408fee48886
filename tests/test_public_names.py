"""The names that `import tiltyard` offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import tiltyard as ty

HEAVY = ("numpy", "scipy", "duckdb", "numba", "altair", "typer", "rich", "pandas")


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_public_names_are_sorted_and_all_there() -> None:
    assert ty.__all__ == sorted(ty.__all__)
    for name in ty.__all__:
        assert getattr(ty, name).__name__ == {"EloReport": "RatingsFile"}.get(name, name)
    assert {"Battle", "EloReport", "RatingEntry", "battles_to_frame", "read_battles", "write_battles"} <= set(
        ty.__all__
    )
    assert set(ty.__all__) <= set(dir(ty))


def test_the_version_is_that_of_the_package() -> None:
    assert ty.__version__ == version("tiltyard")


def test_importing_tiltyard_loads_nothing_heavy() -> None:
    assert loaded_by("import tiltyard") == set()


def test_the_command_line_starts_without_arithmetic() -> None:
    assert loaded_by("import tiltyard.cli.main") <= {"typer", "rich"}


def test_rating_does_not_load_what_it_does_not_use() -> None:
    row = "dict(model_a=a, model_b=b, winner='model_a', source='human')"
    code = f"import tiltyard as ty\nty.rate([{row} for a, b in ('xy', 'yx')])"
    assert not loaded_by(code) & {"numba", "altair", "typer", "rich", "pandas"}
