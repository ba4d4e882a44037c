"""Bifrost."""
