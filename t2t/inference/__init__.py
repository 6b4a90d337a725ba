"""Decoding and scoring with a loaded model, behind all commands that decode. Start with `translator`."""
