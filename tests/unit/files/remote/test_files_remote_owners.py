"""Owners of folders: renewed while alive, replaced when dead, and stopped once replaced."""

import json
import threading

import pytest

from t2t.files.remote.failures import LOST, StoreError
from t2t.files.remote.owners import Owners
from t2t.files.remote.store import Store
from tests.waiting import LIMIT_S, join_all

LOCK = "memory://b/run/lock"
RENEW_S = 0.05


@pytest.fixture
def owners(store, tmp_path, monkeypatch):
    """Returns a function that makes owners, each like one on another machine."""
    monkeypatch.setattr("t2t.files.remote.owners.SETTLE_S", 0.05)
    made = []

    def make(name, takeover_s=60.0):
        found = Owners(Store(), lambda text: None, RENEW_S, takeover_s)
        made.append(found)
        found.own_as = lambda: found.own(LOCK, name, len(made), str(tmp_path / name))
        return found

    yield make
    for one in made:
        one.close()


def hang(one):
    """Stops the renewals, as when the machine stops."""
    one._closed.set()


def nonce(store):
    return json.loads(store.files.cat("/b/run/lock"))["nonce"]


def test_the_second_is_refused_as_long_as_the_first_renews(owners, store):
    first, second = owners("a"), owners("b")
    assert first.own_as() == ""
    assert second.own_as().startswith("2 on ")  # process id and machine
    first.check(["memory://b/run/x"])
    first.release(LOCK)
    assert store.names() == []
    assert second.own_as() == ""


def test_one_that_renews_no_more_is_replaced_and_notices(owners, store):
    first, second = owners("a"), owners("b", takeover_s=0.3)
    first.own_as()
    hang(first)
    assert second.own_as() == ""
    with pytest.raises(StoreError) as raised:
        first.check(["memory://b/run/x"])
    assert (raised.value.kind, raised.value.address) == (LOST, LOCK)
    first.check(["memory://b/other/x"])  # outside its folder
    second.check(["memory://b/run/x"])
    first.release(LOCK)  # it no longer owns the lock
    second.check(["memory://b/run/x"])


def test_the_same_cache_takes_over_at_once(owners, store):
    first = owners("a")
    first.own_as()
    hang(first)
    first._local[LOCK].close()  # as the end of its process does
    notes = []
    again = owners("a")
    again._note = notes.append
    assert again.own_as() == ""
    assert notes == []  # nobody was watched


def test_of_two_at_once_one_wins(owners, store, monkeypatch):
    barrier = threading.Barrier(2)
    write = Owners._write

    def together(self, *args):
        asks = threading.current_thread().name.startswith("asks")
        if asks:
            barrier.wait(LIMIT_S)
        write(self, *args)
        if asks:
            barrier.wait(LIMIT_S)  # both have written before either reads

    monkeypatch.setattr(Owners, "_write", together)
    pair, answers = [owners("a"), owners("b")], {}

    def ask(one, number):
        answers[number] = one.own_as()

    threads = [threading.Thread(target=ask, args=(one, n), name=f"asks {n}") for n, one in enumerate(pair)]
    for thread in threads:
        thread.start()
    join_all(*threads)
    assert sorted(map(bool, answers.values())) == [False, True]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}"])
def test_what_is_no_owner_is_watched_and_replaced(owners, store, content):
    store.files.pipe("/b/run/lock", content)
    assert owners("a", takeover_s=0.1).own_as() == ""
    assert len(nonce(store)) == 32
