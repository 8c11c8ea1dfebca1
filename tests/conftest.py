"""Fixtures that all tests share: real engines, one of each kind a session."""

pytest_plugins = ["tests.engine_fixtures"]
