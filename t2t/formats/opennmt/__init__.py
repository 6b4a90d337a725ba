"""Imports models of OpenNMT-py and of Eole, its successor."""
