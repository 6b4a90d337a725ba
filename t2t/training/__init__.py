"""Training on any backend: begin in `trainer.py`, the loop.

An update is in `step.py`, what it minimizes in `objectives.py` and `sampled_objectives.py`, its rates and rules in
`schedules.py` and `optimizers.py`; which weights are trained in `trained_weights.py`, what checkpoints hold of them in
`weights.py`; what happens every n updates in `callbacks/`.
"""
