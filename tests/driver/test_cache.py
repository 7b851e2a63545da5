"""The on-disk cache: whole entries or none, whichever process writes and whatever happens to the files."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitile.driver import cache as caches
from minitile.driver.cache import Cache, CacheWarning, Entry, Kind, default_cache, make_key, read_any
from minitile.ir.diagnostics import HostError

KIND = Kind("test", {"registers": caches.count, "log": caches.text}, lambda blob: blob != b"bad")
OTHER = Kind("other test", KIND.fields, KIND.whole)
KEY = make_key(KIND, a="a", b="b")
ENTRY = Entry({"registers": 12, "log": "ptxas …\n"}, bytes(range(256)) * 40)


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_what_is_stored_is_found(cache):
    assert cache.load(KEY) is None
    assert cache.store(KEY, ENTRY)
    assert cache.load(KEY) == ENTRY
    assert [key for key, _ in cache.entries()] == [KEY.name]


@given(st.integers(0, 10_800), st.integers(0, 7))
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
        Cache(root).store(KEY, Entry({"registers": number, "log": ""}, bytes([number]) * 100_000))


def test_writers_in_several_processes_do_not_mix(cache):
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    writers = [context.Process(target=_write, args=(cache.root, number)) for number in (1, 2, 3)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        entry = cache.load(KEY)
        assert entry is None or set(entry.blob) == {entry.meta["registers"]}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    entry = cache.load(KEY)
    assert entry is not None
    assert set(entry.blob) == {entry.meta["registers"]}
    assert not list(cache.root.glob("??/.*.tmp"))


def test_a_cache_that_cannot_be_written_forgets(tmp_path):
    (tmp_path / "file").write_text("a file, no folder")
    cache = Cache(tmp_path / "file")
    assert not cache.store(KEY, ENTRY)
    assert cache.load(KEY) is None


def test_clear(cache):
    for i in range(3):
        cache.store(make_key(KIND, i=str(i)), ENTRY)
    (cache.root / KEY.name[:2]).mkdir(exist_ok=True)
    (cache.root / KEY.name[:2] / ".left.tmp").write_text("by an interrupted writer")
    assert cache.clear() == 3
    assert list(cache.root.rglob("*")) == []


def test_keys_separate_their_parts():
    keys = [
        make_key(KIND, x="ab", y="c"),
        make_key(KIND, x="a", y="bc"),
        make_key(KIND, x="a", y=""),
        make_key(KIND, x="a"),
        make_key(KIND, y="a"),
        make_key(OTHER, x="a"),
        make_key(KIND, x="long" * 100),
        make_key(KIND, x="long" * 100 + "er"),
        make_key(KIND, minitile="a"),
    ]
    assert len({key.name for key in keys}) == len({key.data for key in keys}) == len(keys)
    assert make_key(KIND, b="b", a="a") == KEY


def test_the_environment_chooses(monkeypatch, tmp_path):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    assert default_cache() == Cache(tmp_path)
    monkeypatch.delenv("MINITILE_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == Cache(tmp_path / ".cache" / "minitile")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert default_cache() == Cache(tmp_path / "caches" / "minitile")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert default_cache() == Cache(tmp_path / ".cache" / "minitile"), "a relative one is to be ignored"
    monkeypatch.setenv("MINITILE_CACHE", "0")
    assert default_cache() is None


def test_metadata_is_json(cache):
    cache.store(KEY, ENTRY)
    ((_, path),) = cache.entries()
    assert json.dumps(ENTRY.meta).encode() in path.read_bytes()


# Bound to its key -----------------------------------------------------------------------------------------------------


def _file(cache, key):
    return dict(cache.entries())[key.name]


def test_another_entrys_file_is_not_taken(cache):
    """Renamed, copied, restored under a wrong name; of the same kind or not."""
    others = [make_key(KIND, a="a", b="c"), make_key(KIND, a="a"), make_key(OTHER, a="a", b="b")]
    cache.store(KEY, ENTRY)
    for other in others:
        cache.store(other, Entry({**ENTRY.meta, "registers": 99}, b"other"))
        _file(cache, KEY).write_bytes(_file(cache, other).read_bytes())
        assert cache.load(KEY) is None
        assert cache.load(other) is not None
        cache.store(KEY, ENTRY)
        assert cache.load(KEY) == ENTRY


def test_all_that_a_key_depends_on_counts(monkeypatch, cache):
    cache.store(KEY, ENTRY)
    monkeypatch.setattr(caches, "source_digest", lambda: "another minitile")
    assert cache.load(make_key(KIND, a="a", b="b")) is None


NO_META = [
    b"",
    b"null",
    b"[]",
    b"3",
    b"{",
    b"{}",
    b'{"registers": 3}',
    b'{"registers": 3, "log": "x", "more": 1}',
    b'{"registers": "3", "log": "x"}',
    b'{"registers": 3.0, "log": "x"}',
    b'{"registers": true, "log": "x"}',
    b'{"registers": -1, "log": "x"}',
    b'{"registers": null, "log": "x"}',
    b'{"registers": NaN, "log": "x"}',
    b'{"registers": 3, "log": ["x"]}',
    b'{"registers": 1' + b"0" * 5000 + b', "log": "x"}',
    b"[" * 100_000,
    b"\xff\xfe",
]


def _crafted(data, meta, blob, lengths=None):
    lengths = lengths or b"%d %d %d\n" % (len(data), len(meta), len(blob))
    body = lengths + data + meta + blob
    return caches._MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize("meta", NO_META, ids=range(len(NO_META)))
def test_crafted_metadata_count_as_absent(cache, meta):
    cache.store(KEY, ENTRY)
    path = _file(cache, KEY)
    path.write_bytes(_crafted(KEY.data, b'{"registers": 3, "log": "x"}', b"blob"))
    assert cache.load(KEY) == Entry({"registers": 3, "log": "x"}, b"blob")
    path.write_bytes(_crafted(KEY.data, meta, b"blob"))
    read_any(path)
    assert cache.load(KEY) is None
    assert not path.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        caches._MAGIC,
        caches._MAGIC + b"\n" * 100,
        _crafted(KEY.data, b'{"registers": 3, "log": "x"}', b"bad"),
        _crafted(KEY.data[:-1], b'{"registers": 3, "log": "x"}', b""),
        _crafted(b"", b"", b""),
        *(
            _crafted(b"", b"", b"", n + b"\n")
            for n in (b"", b"1 2", b"-1 0 1", b"9" * 30 + b" 0 0", b"a b c", b"1 1 1")
        ),
    ],
)
def test_crafted_files_count_as_absent(cache, data):
    cache.store(KEY, ENTRY)
    path = _file(cache, KEY)
    path.write_bytes(data)
    read_any(path)
    assert cache.load(KEY) is None
    assert not path.exists()


@given(st.binary(max_size=300))
def test_random_bodies_count_as_absent(tmp_path_factory, body):
    cache = Cache(tmp_path_factory.mktemp("cache"))
    cache.store(KEY, ENTRY)
    checksum = hashlib.sha256(body).hexdigest().encode()
    _file(cache, KEY).write_bytes(caches._MAGIC + checksum + b"\n" + body)
    assert cache.load(KEY) is None


def test_what_is_not_of_its_kind_is_not_stored(cache):
    for meta, blob in (({}, b""), ({**ENTRY.meta, "registers": "12"}, b""), (ENTRY.meta, b"bad")):
        assert not cache.store(KEY, Entry(meta, blob))
        assert cache.load(KEY) is None


# Ours alone -----------------------------------------------------------------------------------------------------------

POSIX = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs owners and modes")
ROOT_USER = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="gives files to others")


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777, 0o702])
@pytest.mark.parametrize("inner", [False, True])
def test_folders_that_others_can_write_are_refused(cache, mode, inner):
    cache.store(KEY, ENTRY)
    folder = _file(cache, KEY).parent if inner else cache.root
    folder.chmod(mode)
    for use in (lambda: cache.load(KEY), lambda: cache.store(KEY, ENTRY)):
        with pytest.warns(CacheWarning, match=rf"cache is not used: .* can be written by others \(mode {mode:o}\)"):
            assert not use()
    assert inner or "chmod 700" in cache.refusal()
    folder.chmod(0o700)
    assert cache.load(KEY) == ENTRY


@ROOT_USER
def test_folders_of_other_users_are_refused(cache):
    cache.store(KEY, ENTRY)
    os.chown(cache.root, 12345, 12345)
    with pytest.warns(CacheWarning, match="belongs to user 12345, not to 0"):
        assert cache.load(KEY) is None
    os.chown(cache.root, 0, 0)
    assert cache.load(KEY) == ENTRY


@ROOT_USER
def test_files_of_other_users_are_not_taken(cache):
    cache.store(KEY, ENTRY)
    os.chown(_file(cache, KEY), 12345, 12345)
    assert cache.load(KEY) is None


@POSIX
def test_files_that_others_can_write_are_not_taken(cache):
    cache.store(KEY, ENTRY)
    assert _file(cache, KEY).stat().st_mode & 0o777 == 0o600
    _file(cache, KEY).chmod(0o666)
    assert cache.load(KEY) is None


@POSIX
def test_folders_are_made_for_the_user_alone(cache):
    before = os.umask(0)
    try:
        cache.store(KEY, ENTRY)
    finally:
        os.umask(before)
    assert [f.stat().st_mode & 0o777 for f in (cache.root, _file(cache, KEY).parent)] == [0o700] * 2


@POSIX
def test_what_is_no_plain_file_is_not_read(cache, tmp_path):
    cache.store(KEY, ENTRY)
    path = _file(cache, KEY)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.load(KEY) is None
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert cache.load(KEY) is None, "and there is no wait for a writer"
    path.unlink(missing_ok=True)
    path.mkdir()
    assert cache.load(KEY) is None
    assert not cache.store(KEY, ENTRY)


def test_an_interrupted_writer_leaves_nothing(cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.store(KEY, ENTRY)
    assert [p for p in cache.root.rglob("*") if p.is_file()] == []


# Bounded --------------------------------------------------------------------------------------------------------------


def test_what_was_not_used_for_longest_goes(tmp_path):
    blob = bytes(20_000)
    cache = Cache(tmp_path / "cache", 10 * 21_000)
    keys = [make_key(KIND, i=str(i)) for i in range(40)]
    for age, key in enumerate(keys):
        assert cache.store(key, Entry(ENTRY.meta, blob))
        past = time.time() - 1e6 + 10 * age
        os.utime(_file(cache, key), (past, past))
        if age >= 3:
            assert cache.load(keys[0]) is not None, "it is used all the time"
        assert sum(path.stat().st_size for _, path in cache.entries()) <= cache.limit * (1 + 1 / 16) + 21_000
    left = [i for i, key in enumerate(keys) if cache.load(key) is not None]
    assert left == [0, *range(40 - len(left) + 1, 40)]
    assert 5 <= len(left) <= 11


def test_old_temporary_files_go(cache):
    cache.store(KEY, ENTRY)
    for name, age in (("new", 10), ("old", 10_000)):
        path = _file(cache, KEY).parent / f".{name}.tmp"
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    assert cache.evict() == 0
    assert [p.name for p in cache.root.glob("??/.*")] == [".new.tmp"]


def test_what_is_larger_than_the_cache_is_not_stored(tmp_path):
    assert not Cache(tmp_path / "cache", 5000).store(KEY, ENTRY)


@pytest.mark.parametrize(
    ("text", "size"), [("1000000", 10**6), ("1.5k", 1536), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("1T", 1 << 40)]
)
def test_the_limit(monkeypatch, tmp_path, text, size):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MINITILE_CACHE_SIZE", text)
    assert default_cache() == Cache(tmp_path, size)


@pytest.mark.parametrize("text", ["0", "-1", "much", "1e9", "9" * 400, "1P"])
def test_a_limit_that_is_none(monkeypatch, text):
    monkeypatch.delenv("MINITILE_CACHE", raising=False)
    monkeypatch.setenv("MINITILE_CACHE_SIZE", text)
    with pytest.raises(HostError, match="is no size"):
        default_cache()


@pytest.mark.parametrize("folder", [None, "caches"])
def test_the_folder_is_that_of_platformdirs(monkeypatch, tmp_path, folder):
    platformdirs = pytest.importorskip("platformdirs")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if folder is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / folder))
    assert caches.user_folder() == platformdirs.user_cache_path("minitile", appauthor=False)
