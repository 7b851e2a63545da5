"""The on-disk cache: whole entries or none, whoever writes and whatever happens to the files."""

from __future__ import annotations

import json
import multiprocessing
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitile.cache import Cache, Entry, default_cache, make_key

KEY = make_key("a", "b")
ENTRY = Entry({"registers": 12, "log": "ptxas …\n"}, bytes(range(256)) * 40)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_what_is_stored_is_found(cache):
    assert cache.load(KEY) is None
    assert cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY
    assert [key for key, _ in cache.entries()] == [KEY]


@given(st.integers(0, 10_500), st.integers(0, 7))
def test_a_flipped_bit_is_noticed(tmp_path_factory, position, bit):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    cache.store(KEY, ENTRY)
    ((_, path),) = cache.entries()
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << bit
    path.write_bytes(data)
    assert cache.load(KEY) is None
    assert not path.exists()


@pytest.mark.parametrize("length", [0, 10, 80, 100, 5000])
def test_a_cut_entry_is_removed_and_rebuilt(cache, length):
    cache.store(KEY, ENTRY)
    ((_, path),) = cache.entries()
    path.write_bytes(path.read_bytes()[:length])
    assert cache.load(KEY) is None
    assert not path.exists()
    assert cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY


def _write(root, number):
    for _ in range(50):
        Cache(root).store(KEY, Entry({"by": number}, bytes([number]) * 100_000))


def test_writers_in_several_processes_do_not_mix(cache):
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    writers = [context.Process(target=_write, args=(cache.root, number)) for number in (1, 2, 3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        entry = cache.load(KEY)
        assert entry is None or set(entry.blob) == {entry.meta["by"]}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    entry = cache.load(KEY)
    assert entry is not None
    assert set(entry.blob) == {entry.meta["by"]}
    assert not list(cache.root.glob("??/.*.tmp"))


def test_a_cache_that_cannot_be_written_forgets(tmp_path):
    (tmp_path / "file").write_text("in the way")
    cache = Cache(tmp_path / "file")
    assert not cache.store(KEY, ENTRY)
    assert cache.load(KEY) is None


def test_clear(cache):
    for i in range(3):
        cache.store(make_key(str(i)), ENTRY)
    (cache.root / KEY[:2]).mkdir(exist_ok=True)
    (cache.root / KEY[:2] / ".left.tmp").write_text("by an interrupted writer")
    assert cache.clear() == 3
    assert list(cache.root.rglob("*")) == []


def test_keys_separate_their_parts():
    assert make_key("ab", "c") != make_key("a", "bc")
    assert make_key("a") != make_key("a", "")
    assert make_key("a", "b") == KEY


def test_the_environment_chooses(monkeypatch, tmp_path):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    assert default_cache() == Cache(tmp_path)
    monkeypatch.delenv("MINITILE_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == Cache(tmp_path / ".cache" / "minitile")
    monkeypatch.setenv("MINITILE_CACHE", "0")
    assert default_cache() is None


def test_metadata_is_json(cache):
    cache.store(KEY, ENTRY)
    ((_, path),) = cache.entries()
    assert json.dumps(ENTRY.meta).encode() in path.read_bytes()
