"""Decoding with a model: texts in, hypotheses out.

Begin in `translator.py`. It gives a `DecodeRequest` of texts to an `Engine` (`engine.py`): the model itself
(`model_engine.py`, whose searches are in `batch_search.py`), or CTranslate2, with `fallback.py` between them. `rows.py`
cuts, checks and pads what a model reads; `files/` decodes files; `evaluator.py` computes figures of a split.
"""
