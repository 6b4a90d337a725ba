"""Imports models of Sockeye 3."""
