"""The attention heads that another toolkit takes word alignments from, as hparams."""

from typing import Any

from t2t.hparams.transformer import TransformerHParams


def alignment_hparams(layer: Any, heads: Any, hparams: TransformerHParams) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Returns the decode hparams for alignments, and warnings of what they cannot say.

    Args:
        layer: index of a layer of the decoder; a negative one counts from the end. None if the model names none.
        heads: how many of its heads, the first ones, are averaged; 0 or None for all.
        hparams: of the network.
    """
    layers, most, heads = hparams.decoder_layers, hparams.of_decoder.num_heads, heads or 0
    if type(layer) is not int or type(heads) is not int:
        return {}, ()
    if not -layers <= layer < layers:
        return {}, (f"alignments are those of layer {layer}, and the decoder has {layers}; see alignment_layer",)
    warnings: tuple[str, ...] = ()
    if 1 < heads < most:
        said = f"alignments are the mean of {heads} of the {most} heads of a layer; here they are that of all"
        warnings = (f"{said}; see alignment_head",)
    return {"alignment_layer": layer % layers + 1, "alignment_head": int(heads == 1)}, warnings
