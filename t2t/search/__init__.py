"""Search: from a function that scores the next token to whole hypotheses. Knows no model.

Begin in `methods.py`: a search method by name, what it is compiled for and what it builds. `beam_search.py` and
`sampling.py` are those that write token by token, `mask_predict.py` writes all at once. `step.py` has what they share,
`constraints.py` what may be written next, by the automata of `automata.py`.
"""
