"""Models of OpenNMT-py and of Eole, its successor, as runs."""
