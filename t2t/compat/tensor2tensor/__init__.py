"""`import tensor2tensor` for plug-ins and scripts of Tensor2Tensor, where the real one is not installed.

The modules below this folder have the names that problems, hparams sets and notebooks import from Tensor2Tensor 1.15,
and behave as these do. `tensor2tensor.data_generators.problem` is `t2t.compat.tensor2tensor.data_generators.problem`;
a module or name that does not exist here is a placeholder, which can be imported and subclassed, and says when it is
used what there is instead.

    finder          makes the names importable, and gives plug-ins the parts of TensorFlow 1 that problem files use
    adapter         turns their problems into problems of this project
    sets            turns their hparams sets into sets of this project

The names and what they mean are facts; no code is Tensor2Tensor's.
"""

from t2t.compat.tensor2tensor.placeholders import modules_of

__getattr__ = modules_of(__name__)
