"""Models: each is built from hparams and the spec of a problem, and reads and predicts features by modalities.

Begin with `base`: the contract of a model, and `EncoderDecoder`, which most models derive from; `transformer` is the
first to read. Models near it are the files of its name; those of other systems are in `classics`. `creation` builds and
checks a model; `adapted` and `ensemble` wrap models that are trained.
"""
