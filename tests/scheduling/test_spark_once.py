"""Failures of a live loop are logged as warnings once, and for debugging after that."""

from __future__ import annotations

import logging

import pytest

from scheduling.spark.once import Once


def test_the_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = Once()

    def levels() -> list[str]:
        found = [record.levelname for record in caplog.records]
        caplog.clear()
        return found

    with caplog.at_level(logging.DEBUG, "scheduling"):
        log.log("no new plan", OSError("disk 1"))
        assert caplog.messages == ["scheduling: no new plan: disk 1"]
        assert levels() == ["WARNING"]
        log.log("no new plan", OSError("disk 2"))  # the same kind of error is the same cause
        assert caplog.messages == ["scheduling: no new plan: disk 2"]
        assert levels() == ["DEBUG"]
        log.log("no new plan", ValueError("disk 1"))
        log.log("the backlog is not known", OSError("disk 1"))
        assert levels() == ["WARNING", "WARNING"]
        log.log("lba-ce fell back to", "round-robin: no history")
        log.log("lba-ce fell back to", "round-robin: no history")
        log.log("lba-ce fell back to", "round-robin: one worker")  # a text is its own cause
        assert levels() == ["WARNING", "DEBUG", "WARNING"]
        Once().log("no new plan", OSError("disk 1"))  # another loop
        assert levels() == ["WARNING"]
