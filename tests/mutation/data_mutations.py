"""Mutations of floors 0 to 3: names, words, problems, data."""

from tests.mutation.mutation import Mutation

DATA_MUTATIONS = (
    # Floor 0: names
    Mutation(
        name="a problem twice in a mixture",
        file="t2t/specs/mixture.py",
        original="if names.count(one) > 1:",
        broken="if names.count(one) > 2:",
        breaks="A problem that is named twice has two sets of weights under one name.",
        tests=("tests/unit/specs/test_specs_mixture.py",),
    ),
    Mutation(
        name="other errors as a missing package",
        file="t2t/errors.py",
        original='if package in ("", "t2t"):',
        broken='if package == "":',
        breaks="A fault of the project is called a package that the user has not installed.",
        tests=("tests/unit/test_errors.py::test_other_errors_of_imports_are_no_missing_package",),
    ),
    Mutation(
        name="files written in place",
        file="t2t/files/atomic.py",
        original="os.replace(file.name, path)",
        broken="path.write_bytes(content)",
        breaks="A crash can leave half of the new content in place of the old one.",
        tests=("tests/unit/files/test_files_atomic.py::test_an_interrupted_write_leaves_the_old_content",),
    ),
    Mutation(
        name="seal not checked",
        file="t2t/files/trust.py",
        original="if seal is not None and seal != _digest(name, values):",
        broken='if seal is not None and seal == "":',
        breaks="A record, manifest or pointer with a flipped digit is taken for what was written.",
        tests=("tests/unit/files/test_files_trust.py",),
    ),
    Mutation(
        name="name registered twice",
        file="t2t/registry/registry.py",
        original="if known is not None and not _is_repeated(known, entry):",
        broken="if known is not None and known.alias_of and not _is_repeated(known, entry):",
        breaks="A second registration silently replaces the first.",
        tests=("tests/unit/registry/test_registry.py::test_a_name_taken_twice_names_both_places",),
    ),
    Mutation(
        name="failed plug-in stays registered",
        file="t2t/registry/registry.py",
        original="            self.forget(self._entries.keys() - before)\n            raise\n",
        broken="            raise\n",
        breaks="Names of a plug-in that failed to import stay registered.",
        tests=(
            "tests/unit/registry/test_registry.py::test_what_an_open_registry_was_given_goes_where_the_block_fails",
            "tests/unit/registry/test_registry_plugins.py::test_a_plugin_that_fails_leaves_nothing_registered_and_can_be_mended",
        ),
    ),
    # Floor 1: words
    Mutation(
        name="part of a character is certain",
        file="t2t/text/encoder.py",
        original=r'return self.decode_ids(ids).rstrip("\ufffd")',
        broken="return self.decode_ids(ids)",
        breaks="A text that is sent as it is written has a replacement character for each letter outside ASCII.",
        tests=("tests/unit/text/test_text_certain.py",),
    ),
    Mutation(
        name="underscore not escaped",
        file="t2t/text/subword_tokens.py",
        original=r'ord("_"): "\\u"',
        broken='ord("_"): "_"',
        breaks="An underscore within a token is read back as the end of the token.",
        tests=("tests/unit/text/test_text_subword_tokens.py",),
    ),
    Mutation(
        name="unknown hparams ignored",
        file="t2t/hparams/override.py",
        original="""\
    if unknown := next((match["name"] for match in matches if match["name"] not in defaults), ""):
        raise UnknownNameError(
            f"hparam {unknown!r} does not exist; {did_you_mean(unknown, defaults)}see --registry_help=hparams"
        )
""",
        broken='    matches = [match for match in matches if match["name"] in defaults]\n',
        breaks="An override of a name that does not exist is dropped without a word.",
        tests=("tests/unit/hparams/test_hparams_override.py",),
    ),
    # Floor 2: problems
    Mutation(
        name="_rev keeps the sides",
        file="t2t/problems/variants.py",
        original='"_rev": {INPUTS: TARGETS, TARGETS: INPUTS}',
        broken='"_rev": {INPUTS: INPUTS, TARGETS: TARGETS}',
        breaks="The reversed variant of a problem is the problem itself.",
        tests=("tests/conformance/test_conformance_problems.py::test_variants_rename_the_sides",),
    ),
    Mutation(
        name="CIFAR-100's coarse labels",
        file="t2t/problems/formats/cifar.py",
        original="records[:, labels - 1]",
        broken="records[:, 0]",
        breaks="Of a coarse and a fine label the wrong one is learnt.",
        tests=("tests/unit/problems/test_problems_formats.py::test_cifar_binary",),
    ),
    Mutation(
        name="gapping indices kept in labels",
        file="t2t/problems/treebank/cleaning.py",
        original='re.split(r"[-=]", label, maxsplit=1)',
        broken='re.split(r"[-]", label, maxsplit=1)',
        breaks="NP=2 is another label than NP.",
        tests=("tests/unit/problems/test_problems_treebank.py",),
    ),
    # Floor 3: data
    Mutation(
        name="every epoch in one order",
        file="t2t/data/sampler.py",
        original='Permutation(self._n, "epoch", self._seed, epoch)',
        broken='Permutation(self._n, "epoch", self._seed)',
        breaks="The order of examples does not depend on the epoch.",
        tests=("tests/unit/data/test_data_sampler.py::test_epochs_and_seeds_have_orders_of_their_own",),
    ),
    Mutation(
        name="batch size counts tokens without padding",
        file="t2t/data/batching.py",
        original="np.arange(1, len(reach) + 1) * np.maximum.accumulate(reach)",
        broken="np.cumsum(reach)",
        breaks="A batch is cut by the sum of lengths instead of rows times width, and outgrows its memory.",
        tests=("tests/unit/data/test_data_batching.py",),
    ),
    Mutation(
        name="sources rise in every width",
        file="t2t/data/batching.py",
        original="np.where(rung % 2 == 0, 1, -1)",
        broken="np.ones_like(rung)",
        breaks="A batch that reaches into the next width has the longest and the shortest sources of the two.",
        tests=("tests/unit/data/test_data_batching.py",),
    ),
    Mutation(
        name="length on a rung goes to the next",
        file="t2t/data/batching.py",
        original="self.rungs[np.searchsorted(self.rungs, lengths)]",
        broken='self.rungs[np.searchsorted(self.rungs[:-1], lengths, side="right")]',
        breaks="A sequence that just fits a width is padded to the next one.",
        tests=("tests/unit/data/test_data_batching.py",),
    ),
    Mutation(
        name="resuming ignores the batch",
        file="t2t/data/pipeline.py",
        original='(int(state[key]) for key in ("epoch", "window", "batch"))',
        broken='int(state["epoch"]), int(state["window"]), 0',
        breaks="A resumed run learns again from the batches of its window.",
        tests=("tests/unit/data/test_data_pipeline.py::test_resuming_anywhere_gives_the_uninterrupted_sequence",),
    ),
    Mutation(
        name="the same crop in every epoch",
        file="t2t/data/preprocessors.py",
        original='f"preprocessor/{seed}/{epoch}/{example}/{place}"',
        broken='f"preprocessor/{seed}/{example}/{place}"',
        breaks="What chance makes of an example is the same in every epoch, as if it were stored.",
        tests=("tests/unit/data/test_data_preprocessors.py",),
    ),
    Mutation(
        name="lengths before preprocessors",
        file="t2t/data/pipeline.py",
        original="(self.resized and not self._cuts)",
        broken="False",
        breaks="Examples that preprocessors have made longer than max_length reach the model.",
        tests=("tests/unit/data/test_data_preprocessors.py::test_what_has_become_longer_than_max_length_is_skipped",),
    ),
    Mutation(
        name="sampling in the data's settings",
        file="t2t/problems/base.py",
        original="if name not in training}",
        broken="}",
        breaks="Data must be generated again for an option that only training reads.",
        tests=("tests/unit/problems/test_problems_preprocessors.py",),
    ),
    Mutation(
        name="unfit examples counted twice",
        file="t2t/data/tally.py",
        original="int((is_mended | ~chunk.kept).sum())",
        broken="int(is_mended.sum() + (~chunk.kept).sum())",
        breaks="An example that is mended and dropped counts as two, and good data is refused.",
        tests=("tests/unit/data/test_data_generate.py::test_an_example_that_is_mended_and_dropped_counts_once",),
    ),
    Mutation(
        name="checksums of data not compared",
        file="t2t/data/verification.py",
        original="if sha256_of(path) != record.sha256:",
        broken="if not sha256_of(path):",
        breaks="A flipped bit in generated data is learnt from.",
        tests=("tests/unit/data/test_data_shards.py::test_flipped_bit_is_found_by_verifying",),
    ),
)
