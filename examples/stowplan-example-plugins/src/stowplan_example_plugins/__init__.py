"""Plugins for stowplan, installed like any other package and found by their entry points."""
