"""Where kernels run: plain or compiled, cached where, and with no trace left elsewhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tiltyard.errors import MissingExtra, OptionError
from tiltyard.stats import compiled as compiling
from tiltyard.stats.compiled import WORTH_SECONDS, Kernel, cache_folder

SOURCE = """
from tiltyard.stats.compiled import compiled

STEP = 2.0

def doubled(x):
    return STEP * x

def raised(x):
    return doubled(x) + 1.0

@compiled
def running_sum(values, sums):
    total = 0.0
    for t in range(values.shape[0]):
        total += raised(values[t])
        sums[t] = total
"""

has_numba = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="numba ([fast]) is not installed")
SRC = Path(compiling.__file__).parents[2]


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache that the tests share: what one has compiled, the next finds there."""
    return tmp_path_factory.mktemp("compiled") / "cache"


@pytest.fixture
def cache(cached, monkeypatch):
    monkeypatch.setenv("TILTYARD_CACHE_DIR", str(cached))
    monkeypatch.setenv("TILTYARD_COMPILE", "auto")
    return cached


@pytest.fixture(scope="module")
def source_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "package" / "kernels_under_test.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return path


@pytest.fixture
def kernel(source_file) -> Kernel:
    spec = importlib.util.spec_from_file_location("kernels_under_test", source_file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels_under_test"] = module
    spec.loader.exec_module(module)
    yield module.running_sum
    del sys.modules["kernels_under_test"]


def result_of(run) -> list[float]:
    sums = np.zeros(3)
    run(np.array([1.0, 2.0, 3.0]), sums)
    return sums.tolist()


def python(code: str, **environment: str) -> str:
    """What a fresh Python prints."""
    # Whatever the person running the tests has set for numba or Tiltyard must not decide their outcome.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "TILTYARD"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean, "PYTHONPATH": str(SRC), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_small_input_takes_the_plain_path(cache, kernel):
    assert kernel.compiled(0.9 * WORTH_SECONDS) is None
    assert result_of(kernel.run(0.0)) == [3.0, 8.0, 15.0]  # (2+1), (4+1), (6+1) added up


@has_numba
def test_a_large_input_is_compiled_and_gives_the_same(cache, kernel):
    fast = kernel.compiled(WORTH_SECONDS)
    assert fast is not None
    assert result_of(fast) == result_of(kernel.plain) == [3.0, 8.0, 15.0]


@has_numba
def test_once_compiled_a_kernel_is_used_for_small_inputs_too(cache, kernel):
    fast = kernel.compiled(WORTH_SECONDS)
    assert kernel.run(0.0) is fast


@has_numba
def test_never_means_never_even_after_compiling(cache, kernel, monkeypatch):
    kernel.compiled(WORTH_SECONDS)
    monkeypatch.setenv("TILTYARD_COMPILE", "never")
    assert kernel.compiled(1e9) is None


@has_numba
def test_always_compiles_the_smallest_input(cache, kernel, monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", "always")
    assert result_of(kernel.compiled(0.0)) == [3.0, 8.0, 15.0]


def test_an_unknown_mode_is_an_error_that_lists_the_modes(cache, kernel, monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", "sometimes")
    with pytest.raises(OptionError, match="'sometimes' is unknown: set it to auto, always, never"):
        kernel.compiled(0.0)


@has_numba
def test_compiled_code_goes_to_the_cache_folder_and_nothing_beside_the_source(cache, kernel, source_file):
    before = {path for path in source_file.parent.rglob("*") if path.suffix != ".pyc"}
    result_of(kernel.compiled(WORTH_SECONDS))
    assert {path for path in source_file.parent.rglob("*") if path.suffix != ".pyc"} == before
    assert {path.suffix for path in cache.rglob("*running_sum*")} == {".nbi", ".nbc"}


@has_numba
def test_numba_keeps_its_own_cache_setting(cache, kernel):
    import numba

    before = numba.config.CACHE_DIR
    result_of(kernel.compiled(WORTH_SECONDS))
    assert before == numba.config.CACHE_DIR


@has_numba
def test_a_second_process_starts_from_the_disk_cache(tmp_path, source_file, kernel, monkeypatch):
    code = (
        f"import sys; sys.path.insert(0, {str(source_file.parent)!r})\n"
        "import numpy, kernels_under_test\n"
        "fast = kernels_under_test.running_sum.compiled(0.0)\n"
        "fast(numpy.ones(3), numpy.zeros(3))\n"
        "print(sum(fast.stats.cache_hits.values()), sum(fast.stats.cache_misses.values()), fast.stats.cache_path)"
    )
    environment = {"TILTYARD_CACHE_DIR": str(tmp_path), "TILTYARD_COMPILE": "always"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    first = kernel.compiled(0.0)
    first(np.ones(3), np.zeros(3))
    assert (sum(first.stats.cache_hits.values()), sum(first.stats.cache_misses.values())) == (0, 1)
    hits, misses, path = python(code, **environment).split()
    assert (hits, misses) == ("1", "0")
    assert path.startswith(str(tmp_path))
    assert not list(source_file.parent.rglob("*.nb[ic]"))
    assert not list(SRC.rglob("*.nb[ic]"))


@pytest.mark.soak
@has_numba
def test_a_second_process_finds_the_kernels_of_the_package_and_the_package_stays_clean(tmp_path):
    code = (
        "from tiltyard.stats import elo, elo_kernels\n"
        "elo.sequential_elo([0], [1], [1], n_models=2)\n"
        "stats = elo_kernels.rate_in_order.compiled(0.0).stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), stats.cache_path)"
    )
    environment = {"TILTYARD_CACHE_DIR": str(tmp_path), "TILTYARD_COMPILE": "always"}
    first, second = (python(code, **environment).split() for _ in range(2))
    assert (first[:2], second[:2]) == (["0", "1"], ["1", "0"])
    assert second[2].startswith(str(tmp_path))
    assert not list(SRC.rglob("*.nb[ic]"))


def test_a_small_rating_never_imports_numba_or_scipy():
    code = (
        "import sys\n"
        "from tiltyard.stats import elo, glicko2\n"
        "elo.permutation_elo([0, 1], [1, 2], [True, False], n_models=3)\n"
        "glicko2.rate_battles([0], [1], [1], start=2)\n"
        "print('numba' in sys.modules, 'scipy' in sys.modules)"
    )
    assert python(code) == "False False"


def test_without_a_cache_folder_the_plain_path_is_taken(tmp_path, kernel, monkeypatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    monkeypatch.setenv("TILTYARD_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("TILTYARD_COMPILE", "auto")
    assert cache_folder() is None
    assert kernel.compiled(1e9) is None


@has_numba
def test_forced_without_a_cache_folder_it_compiles_in_memory(tmp_path, kernel, source_file, monkeypatch):
    (tmp_path / "file").write_text("a file where the folder should be")
    monkeypatch.setenv("TILTYARD_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setenv("TILTYARD_COMPILE", "always")
    assert result_of(kernel.compiled(0.0)) == [3.0, 8.0, 15.0]
    assert not list(source_file.parent.rglob("*.nb[ic]"))


def test_forced_without_numba_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['numba'] = None\n"  # how Python spells: this import fails
        "from tiltyard.errors import MissingExtra\n"
        "from tiltyard.stats import elo\n"
        "try: elo.sequential_elo([0], [1], [1], n_models=2)\n"
        "except MissingExtra as error: print(error)"
    )
    told = python(code, TILTYARD_COMPILE="always")
    assert told == str(MissingExtra("TILTYARD_COMPILE=always", "fast"))
    assert "pip install '.[fast]'" in told


def test_the_cache_folder_is_the_users_and_names_the_version(tmp_path, monkeypatch):
    monkeypatch.delenv("TILTYARD_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = cache_folder()
    root = tmp_path / ("home/Library/Caches" if sys.platform == "darwin" else "xdg")
    assert folder.parent == root / "tiltyard" / "compiled"
    assert folder.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache_folder().is_relative_to(tmp_path / "home")
