"""Owners of folders: renewed while alive, replaced when dead, and stopped once replaced."""

import json
import threading

import pytest

from t2t.files.remote.agent import Owners
from t2t.files.remote.failures import LOST, StoreError
from t2t.files.remote.store import Store
from tests.waiting import LIMIT_S, join_all, start_thread

LOCK = "memory://b/run/lock"


@pytest.fixture
def owners(store, tmp_path):
    """Returns a function that makes owners, each like one on another machine."""
    made = []

    def make(name, takeover_s=60.0, through=None):
        found = Owners(through or Store(), lambda text: None, renew_s=0.05, takeover_s=takeover_s, settle_s=0.01)
        made.append(found)
        found.own_as = lambda: found.own(LOCK, name, len(made), str(tmp_path / name))
        return found

    yield make
    for one in made:
        one.close()


def hang(one):
    """Stops the renewals, as when the machine stops."""
    one._closed.set()


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


def test_of_two_at_once_one_wins(owners, store):
    class Together(Store):
        """Waits at the first write of each owner until both have written, before either reads."""

        barrier, waited = threading.Barrier(2), False

        def write(self, *args):
            for act in (lambda: None, lambda: super(Together, self).write(*args)):
                act()
                if not self.waited:
                    self.barrier.wait(LIMIT_S)
            self.waited = True

    pair, answers = [owners("a", through=Together()), owners("b", through=Together())], []
    join_all(*(start_thread(lambda one=one: answers.append(one.own_as())) for one in pair))
    assert sorted(map(bool, answers)) == [False, True]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}"])
def test_what_is_no_owner_is_watched_and_replaced(owners, store, content):
    store.files.pipe("/b/run/lock", content)
    assert owners("a", takeover_s=0.1).own_as() == ""
    assert len(json.loads(store.files.cat("/b/run/lock"))["nonce"]) == 32
