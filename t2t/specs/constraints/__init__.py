"""What outputs may be, as plain data: problems and requests say it, searches keep to it."""
