"""A stored result is read back unchanged, or not at all."""

import asyncio
import gzip
import json
import os
import shutil
import signal
import threading
import time

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from zarr.storage import LocalStore

import identiformer as idf
from identiformer.errors import ResultError
from identiformer.results import content_hash
from identiformer.results.schema import SCHEMA_VERSION
from identiformer.results.store import _decompressed

ATTRIBUTES = {
    "measure": "token_transfer", "schema_version": SCHEMA_VERSION, "model": "größe", "revision": "1", "settings": "{}",
    "complete": 1, "identiformer_version": "0", "examples": 3,
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


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    """Zarr writes in a thread of its own, which an interruption does not end."""
    write, calls = LocalStore.set, []

    async def interrupted(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.5)
        await write(*arguments, **options)

    monkeypatch.setattr(LocalStore, "set", interrupted)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            idf.save_result(make(), tmp_path / "new")
    finally:
        signal.signal(signal.SIGINT, handler)
    time.sleep(1)
    assert not list(tmp_path.iterdir())


def test_a_save_that_is_interrupted_at_its_start_leaves_nothing(tmp_path, monkeypatch):
    begin = threading.Thread.start

    def interrupted(thread):
        begin(thread)
        if thread.name.startswith("ThreadPoolExecutor"):
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        idf.save_result(make(), tmp_path / "new")
    time.sleep(1)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_result_is_neither_saved_nor_opened(stored, tmp_path):
    described = (stored / "zarr.json").read_text()
    with pytest.raises(
        ResultError, match="expected a complete result of token_transfer, got an interrupted one; compute it again"
    ):
        idf.save_result(make().assign_attrs(complete=0), tmp_path / "interrupted.zarr")
    assert [path.name for path in tmp_path.iterdir()] == ["result.zarr"]
    (stored / "zarr.json").write_text(described.replace('"complete": 1', '"complete": 0'))
    with pytest.raises(ResultError, match="expected a complete result of token_transfer, got an interrupted one"):
        idf.open_result(stored)


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


GZIP = {"name": "gzip", "configuration": {"level": 9}}
BLOSC = {"name": "blosc", "configuration": {"cname": "zstd", "clevel": 9, "shuffle": "noshuffle", "typesize": 1, "blocksize": 0}}


@pytest.mark.parametrize("compression", ["gzip", "zstd", "zstd of unknown size", "zstd in two frames", "zstd and more", "blosc"])
def test_a_chunk_that_holds_more_than_its_array_is_rejected_before_it_is_decompressed(stored, monkeypatch, compression):
    """One of 4 GiB took 46 s and 8.7 GB."""
    size = 2**26
    chunk, about = stored / "rate" / "c" / "0" / "0" / "0", stored / "rate" / "zarr.json"
    if compression == "gzip":
        chunk.write_bytes(gzip.compress(bytes(size)))
        about.write_text(json.dumps(json.loads(about.read_text()) | {"codecs": [{"name": "bytes"}, GZIP]}))
    elif compression == "blosc":
        chunk.write_bytes(numcodecs.Blosc("zstd", 9).encode(bytes(size)))
        about.write_text(json.dumps(json.loads(about.read_text()) | {"codecs": [{"name": "bytes"}, BLOSC]}))
    elif compression == "zstd in two frames":
        chunk.write_bytes(chunk.read_bytes() + numcodecs.Zstd().encode(bytes(size)))
    elif compression == "zstd and more":
        chunk.write_bytes(chunk.read_bytes()[:-3] + bytes(10**6))  # blocks without end
    else:
        frame = bytearray(numcodecs.Zstd().encode(bytes(size)))
        frame[4] &= 0b00111111 if compression != "zstd" else 0xFF
        chunk.write_bytes(frame)
    for codec in (numcodecs.GZip, numcodecs.Zstd, numcodecs.Blosc):
        monkeypatch.setattr(codec, "decode", lambda *_: pytest.fail("a chunk was decompressed"))
    with pytest.raises(ResultError, match=r"is damaged: rate holds more than its numbers; make it again"):
        idf.open_result(stored)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 65_791, 65_792, 65_793, 2**20])
@pytest.mark.parametrize("options", [{}, {"checksum": True}, {"level": 19}, {"level": -5}])
def test_the_size_of_a_chunk_is_read_from_its_header(tmp_path, size, options):
    content = np.random.default_rng(0).bytes(size // 2) + bytes(size - size // 2)
    (tmp_path / "chunk").write_bytes(numcodecs.Zstd(**options).encode(content))
    assert _decompressed(tmp_path / "chunk") == size


@pytest.mark.parametrize(
    "array",
    [np.array(["a", "größe", "c", "d"], dtype=object), np.array([True, False, True, True]), np.array([b"a", b"b", b"c", b"d"])],
)
def test_text_and_bits_are_stored(tmp_path, array):
    result = make().assign_coords(note=("layer", array))
    assert idf.open_result(idf.save_result(result, tmp_path / "x.zarr")).identical(result)


@pytest.mark.parametrize(
    "encoding", [{"compressors": [zarr.codecs.GzipCodec()], "chunks": (1, 1, 1)}, {"dtype": "int16", "scale_factor": 0.1}]
)
def test_the_encoding_of_another_file_is_not_used(tmp_path, encoding):
    result = make()
    result["rate"].encoding = encoding
    assert idf.open_result(idf.save_result(result, tmp_path / "x.zarr")).identical(result)


def endless():
    value = {}
    value["itself"] = value
    return value


def test_objects_other_than_text_are_named_and_nothing_is_left(tmp_path):
    result = make().assign_coords(note=("layer", np.array([endless(), "b", "c", "d"], dtype=object)))
    with pytest.raises(ResultError, match=r"got other objects in 'note'; remove or convert them"):
        idf.save_result(result, tmp_path / "x.zarr")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [endless(), object(), {1: 2, "a": 3}, {1}, 1j, b"a"])
@pytest.mark.parametrize("variable", [False, True])
def test_an_attribute_that_cannot_be_written_is_named_and_nothing_is_left(tmp_path, value, variable):
    result = make()
    (result["rate"] if variable else result).attrs["extra"] = value
    with pytest.raises(ResultError, match=r"got 'extra', of type \w+, which cannot be written; remove or convert it"):
        idf.save_result(result, tmp_path / "x.zarr")
    assert not list(tmp_path.iterdir())
