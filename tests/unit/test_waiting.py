"""Nothing waits without a limit: neither a test as a whole, nor a wait within one."""

import threading

import pytest

from tests.conftest import SLOW_LIMIT_S
from tests.errors import refused
from tests.waiting import join_all, start_thread, wait_until


def test_every_test_has_a_time_limit_and_slow_ones_a_longer_one(pytestconfig, request):
    assert 0 < float(pytestconfig.getini("timeout")) < SLOW_LIMIT_S
    assert request.node.get_closest_marker("timeout") is None


@pytest.mark.slow
def test_a_slow_test_has_its_own_limit(request):
    assert request.node.get_closest_marker("timeout").args == (SLOW_LIMIT_S,)


def test_what_never_comes_fails():
    with refused("rest:", "0.01", by=AssertionError):
        wait_until(lambda: False, "a year of rest", seconds=0.01)


def test_a_thread_that_never_ends_fails():
    gate = threading.Event()
    thread = start_thread(gate.wait)
    with refused(thread.name.split()[0], "0.01", by=AssertionError):
        join_all(thread, seconds=0.01)
    gate.set()
    join_all(thread)
