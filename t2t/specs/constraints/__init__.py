"""Constraints on outputs, as plain data: problems and requests define them, searches enforce them."""
