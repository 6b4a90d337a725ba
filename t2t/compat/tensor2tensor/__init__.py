"""`import tensor2tensor` for plug-ins and scripts of Tensor2Tensor, where the real one is not installed.

These modules have the names that problems, hparams sets and notebooks import from Tensor2Tensor 1.15, and behave as
these do. The table in `finder` says which names are where: those of `tensor2tensor.data_generators.translate` are in
`translate`. A module or name that does not exist here is a placeholder, which can be imported and subclassed, and says
when it is used what there is instead.

    finder          makes the modules importable, and gives plug-ins the parts of TensorFlow 1 that problem files use
    adapter         turns their problems into problems of this project
    sets            turns their hparams sets into sets of this project

The names and what they mean are facts; no code is Tensor2Tensor's.
"""
