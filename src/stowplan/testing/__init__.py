"""Builders and fixtures for tests, of this project and of plugin authors."""
