"""Decoding with CTranslate2, a library for fast inference, for models that it supports; start at `engine.py`."""
