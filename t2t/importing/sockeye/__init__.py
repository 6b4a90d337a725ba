"""Models of Sockeye 3 as runs."""
