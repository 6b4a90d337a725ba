"""The syntax of `--hparams`, the same as in Tensor2Tensor: `name=value,name=[v1,v2],name[3]=v`.

Values have the type of the field's default: an int does not accept `1.0`, a bool accepts true/false/True/False/1/0,
strings may contain `=` and `/`; those with commas or brackets, such as regular expressions, are put in quotes,
`name='a[0-3],b'`, which Tensor2Tensor does not have. A trailing comma and spaces after commas are allowed.

And what else the field and other toolkits call hparams and flags, `lr`, `d_model`, `patience`, for errors.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from t2t.errors import ArgumentError, UnknownNameError, UserError, ask_for, nearest

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[A-Za-z][\w.]*)(?:\[\s*(?P<index>\d{1,9})\s*\])?\s*=\s*+"
    r"(?:\[(?P<list>[^\]]*)\]\s*+|(?P<quoted>'[^']*'|\"[^\"]*\")\s*+|(?P<value>[^,\[]*+))(?:,|$)"
    # possessive quantifiers avoid slow backtracking
)
_BOOLS = {"true": True, "True": True, "1": True, "false": False, "False": False, "0": False}


def parse_overrides(
    text: str, defaults: dict[str, Any], current: dict[str, Any], flag: str = "--hparams"
) -> dict[str, Any]:
    """Returns name -> typed value.

    `defaults` has every known name with a value of its type; `name[3]=v` changes one element of a `current` value.
    Messages name the `flag`.

    Raises:
        UserError: malformed text, unknown name, a name assigned twice, a value of another type.
    """
    found: dict[str, Any] = {}
    matches, unread = _assignments(text)
    if unread.strip():
        raise UserError(
            f"{flag}={text!r}: cannot read {unread!r}",
            "write name=value,name=[v1,v2], and text with commas or brackets as name='text'",
        )
    if unknown := next((match["name"] for match in matches if match["name"] not in defaults), ""):
        raise UnknownNameError(
            f"hparam {unknown!r} does not exist", f"{did_you_mean(unknown, defaults)}see --registry_help=hparams"
        )
    if name := _assigned_twice(matches):
        raise UserError(f"{flag}={text!r}: {name} is assigned twice", "keep one")
    for match in matches:
        name, index = _place(match)
        if index is not None:
            found[name] = _with_element(name, found.get(name, current[name]), index, match)
        else:
            found[name] = _value(name, defaults[name], match)
    return found


def join_overrides(texts: Iterable[str]) -> str:
    """Joins several texts with commas; a name that two of them assign is assigned twice in the result."""
    return ",".join(filter(None, (text.strip().removesuffix(",") for text in texts)))


def format_overrides(values: Mapping[str, Any]) -> str:
    """Formats name -> value as a text of assignments; the inverse of `parse_overrides`.

    Raises:
        ArgumentError: an invalid name, or a value that the syntax cannot express.
    """
    return ",".join(f"{name}={_formatted(name, value)}" for name, value in values.items())


def assigned_names(text: str) -> set[str]:
    """Returns the names that a text assigns, as a whole or by element."""
    return {match["name"] for match in _assignments(text)[0]}


def merge_overrides(earlier: str, later: str) -> str:
    """Merges two texts into one; assignments in `later` replace those in `earlier`.

    An element assigned in `later` replaces that element of a list in `earlier`. Malformed parts are kept, so that
    `parse_overrides` reports them.

    Raises:
        UserError: `later` assigns an element that the list in `earlier` does not have.
    """
    (matches, unread), (changes, later_unread) = _assignments(earlier), _assignments(later)
    if _assigned_twice(changes):
        return join_overrides((earlier, later))
    merged = {_place(match): match[0] for match in matches}
    lists = {match["name"]: _parts(match) for match in matches if match["index"] is None and match["list"] is not None}
    for match in changes:
        name, index = _place(match)
        if index is not None and name in lists:
            lists[name] = _with_element(name, lists[name], index, match)
            merged[name, None] = format_overrides({name: lists[name]})
            continue
        merged = {
            place: text
            for place, text in merged.items()
            if place[0] != name or (index is not None and place[1] not in (None, index))
        }
        merged[name, index] = match[0]
    return join_overrides((*merged.values(), unread, later_unread))


def drop_overrides(text: str, name: str) -> str:
    """Returns a text without its assignments to a name, as a whole or by element; malformed parts are kept."""
    matches, unread = _assignments(text)
    return join_overrides((*(match[0] for match in matches if match["name"] != name), unread))


def pick_overrides(text: str, name: str) -> str:
    """Returns the assignments of a text to a name alone, as a whole or by element."""
    return join_overrides(match[0] for match in _assignments(text)[0] if match["name"] == name)


def _formatted(name: Any, value: Any) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.]*", name):
        raise ArgumentError(f"hparams: {name!r} is not the name of an hparam", "give name -> value")
    if isinstance(value, list | tuple):
        return f"[{','.join(_formatted_scalar(name, element, in_list=True) for element in value)}]"
    return _formatted_scalar(name, value)


def _formatted_scalar(name: str, value: Any, in_list: bool = False) -> str:
    value = value.item() if hasattr(value, "item") else value  # numpy's numbers
    if isinstance(value, int | float) or (isinstance(value, str) and not re.search(r"[,\[\]]|^\s*['\"]", value)):
        return str(value)
    quote = next((mark for mark in "'\"" if isinstance(value, str) and mark not in value), "")
    if quote and not in_list:
        return f"{quote}{value}{quote}"
    raise ArgumentError(
        f"it is of type {type(value).__name__}",
        "give a number, a bool, text without both kinds of quotes, or a list of numbers, bools and text without ',' "
        "and brackets",
        hparam=name,
        value=value,
    )


def _assignments(text: str) -> tuple[list[re.Match[str]], str]:
    """Returns the assignments at the start of a text, and the malformed rest."""
    matches, position = [], 0
    while match := _ASSIGNMENT.match(text, position):
        matches.append(match)
        position = match.end()
    return matches, text[position:]


def _place(match: re.Match[str]) -> tuple[str, int | None]:
    """Returns the assigned name and element index; None for the whole value."""
    return match["name"], None if match["index"] is None else int(match["index"])


def _text(match: re.Match[str]) -> str:
    """Returns the single value that is assigned."""
    return match["value"].strip() if match["quoted"] is None else match["quoted"][1:-1]


def _parts(match: re.Match[str]) -> tuple[str, ...]:
    """Returns the elements of the assigned list."""
    return tuple(part.strip() for part in match["list"].split(",") if part.strip())


def _assigned_twice(matches: Iterable[re.Match[str]]) -> str | None:
    """Returns the first name that is assigned twice, or both as a whole and by an element."""
    assigned: dict[str, set[int | None]] = {}
    for name, index in map(_place, matches):
        before = assigned.setdefault(name, set())
        if index in before or None in before or (index is None and before):
            return name
        before.add(index)
    return None


def _value(name: str, default: Any, match: re.Match[str]) -> Any:
    is_list = isinstance(default, tuple)
    if is_list and match["list"] is None:
        raise UserError("it is a list", f"write {name}=[v1,v2]", hparam=name, value=_text(match))
    if not is_list and match["list"] is not None:
        raise UserError("it is one value, not a list", f"write {name}=value", hparam=name, value=f"[{match['list']}]")
    if not is_list:
        return _scalar(name, type(default), _text(match))
    kind = type(default[0]) if default else str
    return tuple(_scalar(name, kind, part) for part in _parts(match))


def _with_element(name: str, values: Any, index: int, match: re.Match[str]) -> tuple[Any, ...]:
    if not isinstance(values, tuple):
        raise UserError(f"hparam {name}[{index}]: it is one value, not a list", f"write {name}=value")
    if match["list"] is not None:
        raise UserError(f"hparam {name}[{index}]: it is given a list", "give one value for an element")
    if index >= len(values):
        raise UserError(f"hparam {name}[{index}]: it has {len(values)} elements", "count them from 0")
    element = _scalar(name, type(values[index]), _text(match))
    return (*values[:index], element, *values[index + 1 :])


def _scalar(name: str, kind: type, text: str) -> Any:
    if kind is str:
        return text
    if kind is bool and text in _BOOLS:
        return _BOOLS[text]
    try:
        if kind is int:
            return int(text)
        if kind is float and math.isfinite(number := float(text)):
            return number
    except ValueError:
        pass
    raise UserError(
        f"it is not of type {kind.__name__}", f"give a value such as {_EXAMPLES[kind]}", hparam=name, value=text
    )


_EXAMPLES = {int: "4", float: "0.1", bool: "true or false"}


# === Unknown names ===

SYNONYMS = {
    # The network
    "hidden_size": "d_model dmodel model_dim dim_model embed_dim emb_dim dim_emb embedding_dim embedding_size emb_size "
                   "hidden_dim n_embd rnn_size word_vec_size encoder_embed_dim decoder_embed_dim dim width",
    "filter_size": "d_ff dff ff_dim ff_size ffn_dim ffn_size dim_feedforward intermediate_size transformer_ff "
                   "feed_forward_size ffn_embed_dim encoder_ffn_dim encoder_ffn_embed_dim transformer_dim_ffn",
    "num_heads": "heads n_heads nhead n_head attention_heads num_attention_heads encoder_attention_heads "
                 "transformer_heads",
    "num_kv_heads": "kv_heads n_kv_heads num_key_value_heads",
    "num_hidden_layers": "layers num_layers n_layers n_layer depth",
    "num_encoder_layers": "enc_layers encoder_layers enc_depth",
    "num_decoder_layers": "dec_layers decoder_layers dec_depth",
    "max_length": "max_len max_seq_len max_seq_length seq_len seq_length max_position_embeddings max_source_length "
                  "max_target_length max_source_positions max_target_positions block_size",
    "layer_prepostprocess_dropout": "dropout dropout_rate dropout_prob hidden_dropout hidden_dropout_prob "
                                    "residual_dropout transformer_dropout p_dropout",
    "dropout": "dropout_rate dropout_prob layer_prepostprocess_dropout hidden_dropout",
    "attention_dropout": "dropout attn_dropout attention_dropout_rate attention_probs_dropout_prob "
                         "transformer_dropout_attention",
    "relu_dropout": "dropout activation_dropout ffn_dropout ff_dropout transformer_dropout_ffn",
    "activation": "activation_fn act_fn hidden_act activation_function nonlinearity",
    "norm_position": "pre_norm prenorm post_norm norm_first normalize_before encoder_normalize_before",
    "norm_epsilon": "layer_norm_eps norm_eps rms_norm_eps",
    "positions": "pos_emb position_encoding positional_encoding rope rotary alibi",
    "shared_embedding_and_softmax_weights": "tie_embeddings tied_embeddings tied_embeddings_all tie_word_embeddings "
                                            "share_embeddings share_all_embeddings",
    # Training
    "learning_rate": "lr max_lr peak_lr base_lr learn_rate",
    "learning_rate_warmup_steps": "warmup warmup_steps warm_up num_warmup_steps warmup_updates lr_warmup",
    "learning_rate_minimum": "min_lr lr_min stop_min_lr end_learning_rate",
    "learning_rate_schedule": "scheduler lr_scheduler lr_scheduler_type lr_schedule decay_method lr_decay",
    "optimizer": "optim",
    "optimizer_adam_beta1": "beta1 adam_beta1 adam_betas betas",
    "optimizer_adam_beta2": "beta2 adam_beta2 adam_betas betas",
    "optimizer_adam_epsilon": "eps epsilon adam_eps adam_epsilon",
    "weight_decay": "wd l2 l2_penalty",
    "clip_grad_norm": "clip clip_norm clipnorm grad_clip max_grad_norm gradient_clipping gradient_clip_val",
    "label_smoothing": "smoothing label_smooth",
    "ema_decay": "ema moving_average moving_average_decay average_decay exponential_smoothing",
    "batch_size": "batch bs max_tokens mini_batch minibatch train_batch_size per_device_train_batch_size",
    "effective_batch_size": "accum accumulate accum_count update_freq grad_accum gradient_accumulation "
                            "gradient_accumulation_steps accumulate_grad_batches optimizer_delay",
    "packed_length": "pack packing",
    "train_steps": "steps max_steps num_steps total_steps train_step max_update max_updates num_updates iterations "
                   "epoch epochs n_epochs num_epochs max_epoch max_epochs num_train_epochs after",
    "early_stopping_steps": "patience early_stopping early_stop early_stopping_patience",
    "best_metric": "monitor metric_for_best_model best_checkpoint_metric early_stopping_criteria valid_metrics",
    "precision": "bf16 fp16 fp32 tf32 bfloat16 float16 float32 half amp autocast mixed_precision dtype",
    "xla": "compile torch_compile jit jit_compile",
    "frozen_weights": "freeze frozen trainable",
    "lora_rank": "lora lora_r lora_dim",
    "random_seed": "seed rng_seed random_state",
    "worker_gpu": "gpu gpus num_gpu num_gpus n_gpu n_gpus ngpu device devices cuda gpu_ranks world_size nproc_per_node",
    "worker_hosts": "hosts nodes master_ip master_addr",
    "local_eval_frequency": "eval_every eval_interval eval_freq eval_frequency valid_freq valid_steps valid_every "
                            "validate_interval save_every save_steps save_freq save_interval checkpoint_steps "
                            "save_checkpoint_steps save_checkpoints_steps",
    "log_step_count_steps": "log_every log_interval log_steps logging_steps report_every disp_freq",
    "keep_checkpoint_max": "keep_checkpoint keep_checkpoints save_total_limit keep_last_epochs max_to_keep",
    "keep_best_checkpoints": "keep_best",
    "schedule": "evaluates",
    "t2t_usr_dir": "usr_dir user_dir plugin_dir",
    "track": "wandb mlflow report_to wandb_project",
    "output_dir": "output out out_dir save_dir save_model model_dir checkpoint_dir log_dir logdir train_dir run_dir "
                  "run resume resume_from resume_from_checkpoint restore_file",
    "warm_start_from": "init_from init_checkpoint pretrained pretrained_model finetune fine_tune "
                       "finetune_from_model train_from load_from",
    # Names and data
    "problem": "task",
    "model": "arch architecture model_type",
    "hparams_set": "arch preset",
    "data_dir": "data data_path datadir dataset",
    "vocab_size": "vocab vocabulary_size src_vocab_size",
    "train_source": "src train_src source",
    "train_target": "tgt trg train_tgt target",
    "dev_source": "valid_src valid_source val_source dev_src",
    "dev_target": "valid_tgt valid_target val_target dev_tgt",
    # Decoding
    "decode_beam_size": "beam_size beam beams num_beams beam_width beam_search_size",
    "beam_size": "beam beams num_beams beam_width beam_search_size",
    "decode_alpha": "alpha lenpen len_pen",
    "alpha": "lenpen len_pen",
    "n_best": "nbest num_return_sequences num_hypotheses",
    "sampling_temperature": "temperature temp",
    "sampling_top_k": "top_k topk",
    "sampling_top_p": "top_p topp nucleus",
    "no_repeat_ngram_size": "no_repeat_ngram block_ngram_repeat",
    "min_output_length": "min_len min_length min_tokens min_new_tokens",
    "extra_length": "max_new_tokens max_output_length",
    "decode_from_file": "input input_file src source",
    "decode_to_file": "output output_file",
}  # fmt: skip
"""Name -> its synonyms; the order is that of the proposals."""

_SIMILAR = 0.75
"""How much an unknown name resembles the name or the synonym that it surely is."""


def meant_by(name: str, known: Collection[str]) -> list[str]:
    """Returns the known names that an unknown one is a synonym of; otherwise those that it resembles, or a synonym."""
    meant: dict[str, list[str]] = {}
    for one in SYNONYMS:
        for word in SYNONYMS[one].split() if one in known else ():
            meant.setdefault(word, []).append(one)
    if exact := meant.get(name.lower()):
        return exact
    near = nearest(name, known)
    similar = nearest(name, meant, _SIMILAR) if not nearest(name, near, _SIMILAR) else []
    return [one for word in similar[:1] for one in meant[word]] or near


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Does the same as `t2t.errors.did_you_mean` for hparams and flags, whose synonyms are known."""
    return ask_for(meant_by(name, known))
