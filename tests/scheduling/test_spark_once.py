"""Failures of a live loop are logged as warnings once, and for debugging after that."""

from __future__ import annotations

import logging

import pytest

from scheduling.spark.once import LogOnce


def test_the_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = LogOnce()

    def levels() -> list[str]:
        found = [record.levelname for record in caplog.records]
        caplog.clear()
        return found

    with caplog.at_level(logging.DEBUG, "scheduling"):
        log.warn("no new plan", OSError("disk 1"))
        assert caplog.messages == ["scheduling: no new plan: disk 1"]
        assert levels() == ["WARNING"]
        log.warn("no new plan", OSError("disk 2"))  # the same kind of error is the same cause
        assert caplog.messages == ["scheduling: no new plan: disk 2"]
        assert levels() == ["DEBUG"]
        log.warn("no new plan", ValueError("disk 1"))
        log.warn("the backlog is not known", OSError("disk 1"))
        assert levels() == ["WARNING", "WARNING"]
        log.warn("lba-ce fell back to", "round-robin: no history")
        log.warn("lba-ce fell back to", "round-robin: no history")
        log.warn("lba-ce fell back to", "round-robin: one worker")  # a text is its own cause
        assert levels() == ["WARNING", "DEBUG", "WARNING"]
        LogOnce().warn("no new plan", OSError("disk 1"))  # another loop
        assert levels() == ["WARNING"]
