"""What knows TensorFlow or JAX, for training and decoding: compiling functions of values, devices, workers, memory.

Begin in `base.py`: `Backend`, which `tensorflow/` and `jax/` implement; `choice.py` chooses one. What an update is
made of is in `update.py`; the processes of a run are in `cluster.py`, their communication in `workers.py`.
"""
