"""Imports fairseq translation models: a checkpoint, two dictionaries, and BPE codes or a SentencePiece model."""
