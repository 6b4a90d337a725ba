"""Runs as models of the library transformers: what has the same network there, with tokenizer and model card."""
