"""A stored result is read back unchanged, or not at all."""

import json
import os
import shutil

import numpy as np
import pytest
import xarray as xr

import identiformer as idf
from identiformer.errors import ResultError
from identiformer.results import content_hash
from identiformer.results.schema import SCHEMA_VERSION

ATTRIBUTES = {
    "measure": "token_transfer", "schema_version": SCHEMA_VERSION, "model": "größe", "revision": "1", "settings": "{}",
    "identiformer_version": "0", "examples": 3,
}  # fmt: skip


def make(seed=0):
    chance = np.random.default_rng(seed)
    rates = {name: (("probe", "trained", "layer"), chance.random((2, 3, 4))) for name in ("rate", "rate_sd", "rate_low")}
    # Zarr writes no chunk at all for an array of zeros or NaN: that one is whole without it.
    empty = {"rate_high": (("probe", "trained", "layer"), np.full((2, 3, 4), np.nan)), "random_rate": ((), 0.0)}
    names = {"probe": ["naive ℓ2", "mlp"], "trained": [0, 1, 2], "layer": [1, 2, 3, 4]}
    return xr.Dataset({**rates, **empty}, names, ATTRIBUTES)


@pytest.fixture
def stored(tmp_path):
    return idf.save_result(make(), tmp_path / "result.zarr")


def files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_stored_result_is_identical(stored):
    actual = idf.open_result(stored)
    assert actual.identical(make())
    assert content_hash(actual) == content_hash(make())
    assert idf.open_result(idf.save_result(actual, stored)).identical(actual)


def test_missing_file_is_an_error(stored, tmp_path):
    for path in files(stored):
        kept = path.read_bytes()
        path.unlink()
        with pytest.raises(ResultError, match=r"damaged|expected a folder with a result"):
            idf.open_result(stored)
        path.write_bytes(kept)
    for folder in [path for path in stored.iterdir() if path.is_dir()]:
        shutil.move(folder, tmp_path / "away")
        with pytest.raises(ResultError, match="damaged"):
            idf.open_result(stored)
        shutil.move(tmp_path / "away", folder)
    assert idf.open_result(stored).identical(make())


def test_altered_byte_is_an_error_or_harmless(stored):
    chance = np.random.default_rng(1)
    for path in files(stored):
        kept = path.read_bytes()
        for position in chance.choice(len(kept), 3):
            altered = bytearray(kept)
            altered[position] ^= 1 << int(chance.integers(8))
            path.write_bytes(altered)
            try:
                assert idf.open_result(stored).identical(make())
            except ResultError as error:
                assert str(error).count("\n") == 0  # noqa: PT017
        path.write_bytes(kept)


def test_numbers_of_another_result_are_an_error(stored, tmp_path):
    other = idf.save_result(make(seed=1), tmp_path / "other.zarr")
    shutil.copyfile(other / "rate" / "c" / "0" / "0" / "0", stored / "rate" / "c" / "0" / "0" / "0")
    with pytest.raises(ResultError, match="some of its numbers are missing or altered; make it again"):
        idf.open_result(stored)


@pytest.mark.parametrize("axis", ["rate", "layer"])
def test_array_larger_than_memory_is_not_allocated(stored, axis):
    path = stored / axis / "zarr.json"
    about = json.loads(path.read_text())
    about["shape"][-1] = 10**15
    path.write_text(json.dumps(about))
    with pytest.raises(ResultError, match=r"expected a result of at most .* the memory of this machine, but .* claims"):
        idf.open_result(stored)


@pytest.mark.timeout(30)
def test_pipe_instead_of_a_chunk_does_not_block(stored):
    path = stored / "rate" / "c" / "0" / "0" / "0"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ResultError, match="damaged"):
        idf.open_result(stored)


@pytest.mark.parametrize("content", ["", "[]", "{}", "[" * 100_000, '{"zarr_format": 3}', '{"zarr_format": 2}', "9" * 5000])
def test_invalid_metadata_is_one_sentence(stored, content):
    for path in (stored / "zarr.json", stored / "rate" / "zarr.json"):
        path.write_text(content)
        with pytest.raises(ResultError, match=r"damaged|its attributes .* are missing"):
            idf.open_result(stored)


def test_negative_nan_is_stored(tmp_path):
    # 0/0 yields NaN with the sign bit set on x86; Zarr stores an array of NaN by its fill value, which has no sign.
    result = make()
    result["rate_high"] = result.rate_high.copy(data=-result.rate_high.values)
    assert np.signbit(result.rate_high.values).all()
    assert idf.open_result(idf.save_result(result, tmp_path / "x.zarr")).rate_high.isnull().all()


@pytest.mark.parametrize("name", ["rate/zarr.json", "rate/c/0/0/0"])
def test_oversized_file_is_not_read(stored, name):
    """A sparse file of 6 GiB took longer than half a minute."""
    os.truncate(stored / name, 6 * 2**30)
    with pytest.raises(ResultError, match=r"is damaged: .* (too large|larger than its numbers); make it again"):
        idf.open_result(stored)
