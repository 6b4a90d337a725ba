"""Exports runs to the library transformers, for networks that it supports, with tokenizer and model card."""
