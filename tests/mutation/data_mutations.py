"""Mutations of floors 0 to 3: names, words, problems, data."""

from tests.mutation.mutation import Mutation

# fmt: off
DATA_MUTATIONS = (
    # Floor 0: names
    Mutation(
        "an alias of another model", "A name of Tensor2Tensor is an alias of nothing.",
        "t2t/registry/tensor2tensor/models.py", '"imagetransformer": "image_transformer"',
        '"imagetransformer": "image_of_transformers"', "test_registry_tensor2tensor",
    ),
    Mutation(
        "the tag stands behind the first piece",
        "Training reads the language tag in another place than decoding writes it.",
        "t2t/data/tagged.py", "marked[start_N + place] = token_id",
        "marked[start_N + place], marked[start_N + place + 1] = marked[start_N + place + 1], token_id",
        "test_problems_language_tags",
    ),
    Mutation(
        "outputs without the code of their language", "An imported translator writes whatever language it begins with.",
        "t2t/problems/languages.py", "if target and target.target == BEGIN:", "if target and target.target == NONE:",
        "test_problems_languages",
    ),
    Mutation(
        "codes of languages as text", "Outputs begin with the code of their language.",
        "t2t/text/piece_table.py", "[token_id for token_id in ids if token_id not in self.codes]", "list(ids)",
        "test_text_piece_table",
    ),
    Mutation(
        "a problem twice in a mixture", "A problem that is named twice has two sets of weights under one name.",
        "t2t/specs/mixture.py", "if names.count(one) > 1:", "if names.count(one) > 2:", "test_specs_mixture",
    ),
    Mutation(
        "other errors as a missing package",
        "A fault of the project is called a package that the user has not installed.",
        "t2t/errors.py", 'if package in ("", "t2t"):', 'if package == "":',
        "test_errors::test_other_errors_of_imports_are_no_missing_package",
    ),
    Mutation(
        "files written in place", "A crash can leave half of the new content in place of the old one.",
        "t2t/files/atomic.py", "os.replace(file.name, path)", "path.write_bytes(content)", "test_files_atomic",
    ),
    Mutation(
        "marker of a stored folder in its turn",
        "An upload that is killed can leave data or a checkpoint in a store that count and are not whole.",
        "t2t/files/remote/mirror.py", "    publish(*files)\n", "    publish(*files, folder / marker)\n",
        "test_files_remote_mirror",
    ),
    Mutation(
        "replaced owner goes on", "Two machines write the same run in an object store.",
        "t2t/files/remote/agent.py", "            self._owners.check([address for _, address in args[0]])\n",
        "            pass\n", "test_checkpoints_mirrored",
    ),
    Mutation(
        "seal not checked", "A record, manifest or pointer with a flipped digit is taken for what was written.",
        "t2t/files/trust.py", "if seal is not None and seal != _digest(name, values):",
        'if seal is not None and seal == "":', "test_files_trust",
    ),
    Mutation(
        "name registered twice", "A second registration silently replaces the first.",
        "t2t/registry/registry.py", "if known is not None and not _is_repeated(known, entry):",
        "if known is not None and known.alias_of and not _is_repeated(known, entry):", "test_registry",
    ),
    Mutation(
        "failed plug-in stays registered", "Names of a plug-in that failed to import stay registered.",
        "t2t/registry/registry.py", "            self.forget(self._entries.keys() - before)\n            raise\n",
        "            raise\n", "test_registry test_registry_plugins",
    ),
    # Floor 1: words
    Mutation(
        "part of a character is certain",
        "A text that is sent as it is written has a replacement character for each letter outside ASCII.",
        "t2t/text/encoder.py", r'return self.decode_ids(ids).rstrip("\ufffd")', "return self.decode_ids(ids)",
        "test_text_certain",
    ),
    Mutation(
        "ranges of one character are lost", "A regular expression with a single character in it matches nothing.",
        "t2t/text/regular_expressions/automaton.py", "if first <= min(last, end):", "if first < min(last, end):",
        "test_text_regular_expressions",
    ),
    Mutation(
        "underscore not escaped", "An underscore within a token is read back as the end of the token.",
        "t2t/text/subword_tokens.py", r'ord("_"): "\\u"', 'ord("_"): "_"', "test_text_subword_tokens",
    ),
    Mutation(
        "unknown hparams ignored", "An override of a name that does not exist is dropped without a word.",
        "t2t/hparams/override.py",
        '    if unknown := next((match["name"] for match in matches if match["name"] not in defaults), ""):\n     '
        '   raise UnknownNameError(\n            f"hparam {unknown!r} does not exist; {did_you_mean(unknown, '
        'defaults)}see --registry_help=hparams"\n        )\n',
        '    matches = [match for match in matches if match["name"] in defaults]\n', "test_hparams_override",
    ),
    # Floor 2: problems
    Mutation(
        "the end of sequence is hidden", "A masked language model predicts where texts end.",
        "t2t/problems/masking.py", "(ids != PAD_ID) & (ids != EOS_ID)", "(ids != PAD_ID)", "test_problems_masking",
    ),
    Mutation(
        "_rev keeps the sides", "The reversed variant of a problem is the problem itself.",
        "t2t/problems/variants.py", '"_rev": {INPUTS: TARGETS, TARGETS: INPUTS}',
        '"_rev": {INPUTS: INPUTS, TARGETS: TARGETS}', "test_conformance_problems::test_variants_rename_the_sides",
    ),
    Mutation(
        "CIFAR-100's coarse labels", "Of a coarse and a fine label the wrong one is learnt.",
        "t2t/problems/formats/cifar.py", "records[:, labels - 1]", "records[:, 0]", "test_problems_formats",
    ),
    Mutation(
        "moving digits jump at a wall", "A digit that leaves at one wall comes in at the other.",
        "t2t/problems/moving_mnist.py", "% (2 * free)", "% free", "test_problems_moving_mnist",
    ),
    Mutation(
        "mu-law codes rounded down", "Sound is stored a step lower than it is, and does not come back from its codes.",
        "t2t/problems/formats/audio.py", "np.floor((companded + 1.0) / 2.0 * MU + 0.5)",
        "np.floor((companded + 1.0) / 2.0 * MU)", "test_problems_speech_generation",
    ),
    Mutation(
        "gapping indices kept in labels", "NP=2 is another label than NP.",
        "t2t/problems/treebank/cleaning.py", 're.split(r"[-=]", label, maxsplit=1)',
        're.split(r"[-]", label, maxsplit=1)', "test_problems_treebank",
    ),
    Mutation(
        "a score at the threshold is dropped", "Pairs with just the score that is asked for are lost.",
        "t2t/problems/filters/scores.py", "sample[SCORE] >= least", "sample[SCORE] > least",
        "test_problems_filters_scores",
    ),
    Mutation(
        "vocabulary of all texts", "Pieces are learnt for texts that filters drop.",
        "t2t/problems/text_problems.py", "kept = unfiltered(self, samples)", "kept = samples", "test_data_filters",
    ),
    # Floor 3: data
    Mutation(
        "the last of equal samples is kept",
        "Of equal samples another one than the first in the order of the corpus is kept.",
        "t2t/data/duplicates.py", "return places[order[1:][same]]", "return places[order[:-1][same]]",
        "test_data_duplicates",
    ),
    Mutation(
        "filtered samples are unfit", "A filter that drops much ends the generation as if the raw files were damaged.",
        "t2t/data/tally.py", "(is_repaired | ~chunk.kept) & ~chunk.filtered", "is_repaired | ~chunk.kept",
        "test_data_filters",
    ),
    Mutation(
        "every epoch in one order", "The order of examples does not depend on the epoch.",
        "t2t/data/sampler.py", 'Permutation(self._n, "epoch", self._seed, epoch)',
        'Permutation(self._n, "epoch", self._seed)', "test_data_sampler",
    ),
    Mutation(
        "batch size counts tokens without padding",
        "A batch is cut by the sum of lengths instead of rows times width, and outgrows its memory.",
        "t2t/data/batching.py", "np.arange(1, len(reach) + 1) * np.maximum.accumulate(reach)", "np.cumsum(reach)",
        "test_data_batching",
    ),
    Mutation(
        "sources rise in every width",
        "A batch that reaches into the next width has the longest and the shortest sources of the two.",
        "t2t/data/batching.py", "np.where(rung % 2 == 0, 1, -1)", "np.ones_like(rung)", "test_data_batching",
    ),
    Mutation(
        "length on a rung goes to the next", "A sequence that just fits a width is padded to the next one.",
        "t2t/data/batching.py", "self.rungs[np.searchsorted(self.rungs, lengths)]",
        'self.rungs[np.searchsorted(self.rungs[:-1], lengths, side="right")]', "test_data_batching",
    ),
    Mutation(
        "resuming ignores the batch", "A resumed run learns again from the batches of its window.",
        "t2t/data/training_batches.py", '(int(state[key]) for key in ("epoch", "window", "batch"))',
        'int(state["epoch"]), int(state["window"]), 0', "test_data_training_batches",
    ),
    Mutation(
        "the same crop in every epoch",
        "What chance makes of an example is the same in every epoch, as if it were stored.",
        "t2t/data/preprocessors.py", 'f"preprocessor/{seed}/{epoch}/{example}/{place}"',
        'f"preprocessor/{seed}/{example}/{place}"', "test_data_preprocessors",
    ),
    Mutation(
        "lengths before preprocessors", "Examples that preprocessors have made longer than max_length reach the model.",
        "t2t/data/training_batches.py", "(self.resized and not self._target_is_class)", "False",
        "test_data_preprocessors",
    ),
    Mutation(
        "sampling in the data's settings", "Data must be generated again for an option that only training reads.",
        "t2t/problems/options.py", "if name not in self.training_names()}", "}", "test_problems_preprocessors",
    ),
    Mutation(
        "unfit examples counted twice",
        "An example that is repaired and dropped counts as two, and good data is refused.",
        "t2t/data/tally.py", "int(((is_repaired | ~chunk.kept) & ~chunk.filtered).sum())",
        "int(is_repaired.sum() + (~chunk.kept & ~chunk.filtered).sum())", "test_data_generate",
    ),
    Mutation(
        "two sides cut at lines of their own", "A shard pairs lines of a corpus that do not belong together.",
        "t2t/files/line_blocks.py", "_cut_at(path, leading.lines, buffer_bytes)",
        "_cut_by_bytes(path, most_bytes, buffer_bytes)", "test_files_line_blocks",
    ),
    Mutation(
        "all shards with the same chance", "Each shard of a made-up corpus has the same examples.",
        "t2t/data/shard_job.py", 'use = split if shards == 1 else f"{split}/{shard}"', "use = split",
        "test_data_sharded",
    ),
    Mutation(
        "shards of another plan taken", "Data is put together of shards with different vocabularies or seeds.",
        "t2t/data/work_folders.py", "if there and record.plan == plan.fingerprint:", "if there:", "test_data_sharded",
    ),
    Mutation(
        "shards of a corrected plug-in kept", "A generation goes on with shards that code of another version made.",
        "t2t/data/plan.py", 'hashlib.sha256("".join(digests).encode())', 'hashlib.sha256(b"")', "test_data_sharded",
    ),
    Mutation(
        "samples of shards not thinned alike",
        "A small file of a corpus counts as much for the vocabulary as a large one.",
        "t2t/text/sample.py", "while part.level < level:", "while part.level < level - 9:", "test_text_sample",
    ),
    Mutation(
        "distilled targets begin again in each window",
        "The targets of later windows stand next to the inputs of the first.",
        "t2t/data/distilled.py", "np.arange(writer.examples, writer.examples + len(rows))", "np.arange(len(rows))",
        "test_data_distilled",
    ),
    Mutation(
        "checksums of data not compared", "A flipped bit in generated data is learnt from.",
        "t2t/data/verification.py", "is_same = sha256_of(path) == record.sha256", "is_same = bool(sha256_of(path))",
        "test_data_shards",
    ),
    Mutation(
        "a class with ^ has its members", "A regular expression with [^a] matches a and nothing else.",
        "t2t/text/regular_expressions/syntax.py", "return complement(ranges) if is_negative else normalized(ranges)",
        "return normalized(ranges)", "test_text_regular_expressions",
    ),
    Mutation(
        "three times is three times and more", "a{3} in a regular expression matches any longer run as well.",
        "t2t/text/regular_expressions/syntax.py", "else None if found[2] else least", "else None",
        "test_text_regular_expressions",
    ),
    Mutation(
        "a star repeats once", "A regular expression with * matches no text in which its part occurs twice.",
        "t2t/text/regular_expressions/automaton.py", "self.free[self.add(node.part, loop)].append(loop)",
        "self.free[self.add(node.part, loop)].append(end)", "test_text_regular_expressions",
    ),
    Mutation(
        "ranges over lead bytes overlap",
        "A character outside ASCII is matched along two paths, or one beyond its range is.",
        "t2t/text/regular_expressions/automaton.py", "        end -= 1\n", "        end -= 0\n",
        "test_text_regular_expressions",
    ),
    Mutation(
        "empty outputs of an expression", "A regular expression that matches the empty text forbids the empty output.",
        "t2t/text/regular_expressions/lifting.py", "| ({0} if is_final[0] else set())", "",
        "test_text_regular_expressions",
    ),
    Mutation(
        "words without spaces between", "A regular expression over words reads them as one word.",
        "t2t/text/regular_expressions/lifting.py", 'b" " + word', "word", "test_text_regular_expressions",
    ),
    Mutation(
        "the end of sequence is free",
        "The shortest output of a constraint is thought to be one id shorter than it is.",
        "t2t/specs/constraints/finite.py", "states, count = set(self.final), 1", "states, count = set(self.final), 0",
        "test_inference_output_constraints test_decoding_constraints test_decoding_phrases",
    ),
    Mutation(
        "anything follows an answer", "Where an output is to be one of some answers, other ids begin an answer again.",
        "t2t/specs/constraints/finite.py", "(DEAD,) * len(edges), final)", "(0,) * len(edges), final)",
        "test_decoding_constraints test_inference_output_constraints",
    ),
    Mutation(
        "a phrase within another", "A forbidden phrase is not noticed inside of a longer one.",
        "t2t/specs/constraints/phrases.py", "self.found[node] |= self.found[self.shorter[node]]",
        "self.found[node] |= 0", "test_decoding_phrases",
    ),
    Mutation(
        "empty phrases of trees", "A tree whose last phrase has no word is taken for one that can be finished.",
        "t2t/specs/constraints/trees.py", "possible = words > 0 if is_empty else words >= 0", "possible = words >= 0",
        "test_decoding_trees",
    ),
    Mutation(
        "steps between sizes", "Batches of JAX are padded by up to their own length.",
        "t2t/data/padded_sizes.py", "2 ** ((size - 1).bit_length() - 1) // parts",
        "2 ** (size - 1).bit_length() // parts", "test_inference_jax_sizes",
    ),
)
# fmt: on
