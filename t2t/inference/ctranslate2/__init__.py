"""Decoding by CTranslate2, a library made for it, of the models that it can hold; start reading at `engine.py`."""
