"""Mutations of floor 7: the commands, the service, the page, exports, runs, the functions for Python."""

from tests.mutation.mutation import Mutation

# fmt: off
DOOR_MUTATIONS = (
    Mutation(
        "blank lines are translated", "A line of white space gets whatever the model makes of nothing.",
        "t2t/inference/text_model.py", "return self.has_inputs and not text.strip()",
        "return self.has_inputs and not text", "test_inference_files_job::test_empty_lines_are_not_asked_about",
    ),
    Mutation(
        "workers that differ", "A worker with other code or options makes some shards otherwise than the rest.",
        "t2t/pipelines/generation.py", "if differing := describe_differences(planned, found):",
        "if differing := describe_differences(planned, planned):",
        "test_pipelines_generation::test_a_worker_that_would_make_other_data_is_refused",
    ),
    Mutation(
        "a pipeline goes on after a mistake", "Workers make shards for hours that nobody can use.",
        "t2t/pipelines/pipeline.py", "if isinstance(failures.first(), UserError):",
        "if isinstance(failures.first(), MachineError):", "test_pipelines_pipeline",
    ),
    Mutation(
        "each worker looks up the latest checkpoint",
        "Parts of a file come from different checkpoints while training goes on.",
        "t2t/pipelines/decoding.py", "CheckpointStore(run.checkpoints_folder).find(checkpoint)", "checkpoint",
        "test_pipelines_decoding::test_the_model_is_loaded_once_with_the_checkpoint_that_was_the_latest",
    ),
    Mutation(
        "a resumed run is another one for its tracker",
        "Each resuming begins another run in MLflow, and its curves fall apart.",
        "t2t/tracking/run_tracker.py", 'known = self._state.get("name", "")', 'known = ""', "test_tracking_run_tracker",
    ),
    Mutation(
        "another job's output continued", "Half of a file is what another model or setting has written.",
        "t2t/files/output.py", 'and state["fingerprint"] == self._fingerprint is not None',
        "and self._fingerprint is not None", "test_files_output",
    ),
    Mutation(
        "parts of different jobs merged", "A file is half of one model and half of another.",
        "t2t/inference/files/merging.py", "elif record.fingerprint != usual:", "elif not record.fingerprint:",
        "test_inference_files_merging::test_parts_of_another_job_are_named",
    ),
    Mutation(
        "windows cut by shards", "Batches of shards are others than those of one machine.",
        "t2t/inference/files/shards.py", "range(min(first * window, total), min(end * window, total))",
        "range(total * self.number // self.count, total * (self.number + 1) // self.count)",
        "test_inference_files_shards",
    ),
    Mutation(
        "lines before a range repaired too", "Warnings of shards count lines of others.",
        "t2t/files/line_index.py", "            repaired.clear()  # of what is passed over nothing counts",
        "            pass", "test_files_line_index",
    ),
    Mutation(
        "tabs inside outputs", "Of several outputs on a line nobody can say where one ends.",
        "t2t/inference/files/formats.py", "forbidden = _BREAKS if n_best == 1 else _BREAKS_AND_TABS",
        "forbidden = _BREAKS", "test_inference_files_formats",
    ),
    Mutation(
        "Tensor2Tensor's second feed-forward matrix", "The two matrices of a feed-forward layer are exchanged.",
        "t2t/importing/tensor2tensor/names.py", "'inner' if found[1] == '1' else 'outer'",
        "'outer' if found[1] == '1' else 'inner'", "test_importing_tensor2tensor::test_the_network_is_the_same",
    ),
    Mutation(
        "cosines before sines in Marian's order", "An exported run's channels meet the wrong positions.",
        "t2t/export/huggingface/marian.py", "channels.reshape(-1, 2).T.reshape(-1)",
        "channels.reshape(-1, 2).T[::-1].reshape(-1)", "test_export_huggingface::test_a_run_of_ours_is_marians_network",
    ),
    Mutation(
        "sentinels in the graph", "A SavedModel of T5 reads the first sentinel of a text alone.",
        "t2t/export/in_graph/piece_table.py", "replace_global=self._has_sentinels", "replace_global=False",
        "test_export_in_graph::test_ids_are_those_of_the_encoder",
    ),
    Mutation(
        "queries of a Marian translator as keys", "Queries and keys of imported attention are exchanged.",
        "t2t/export/huggingface/mapping.py", '_LETTERS = {"q": "query", "k": "key", "v": "value"}',
        '_LETTERS = {"k": "query", "q": "key", "v": "value"}',
        "test_importing_huggingface_marian::test_targets_have_the_same_probabilities",
    ),
    Mutation(
        "a decoder that begins with something else",
        "A model whose decoder begins with a vector of its own is imported as one that begins with zeros.",
        "t2t/importing/huggingface/marian.py", "if np.any(vector_D):", "if False:",
        "test_importing_huggingface_marian::test_a_decoder_that_begins_with_something_else_than_zeros_is_refused",
    ),
    Mutation(
        "the first position of fairseq", "Positions of imported translators count from 0 on, not from 2.",
        "t2t/importing/fairseq/run.py", "first_position=_FIRST_POSITION if", "first_position=0 if",
        "test_importing_fairseq::test_targets_have_the_same_probabilities",
    ),
    Mutation(
        "padding that Marian does not have", "Padding takes probability from the words of an imported model.",
        "t2t/importing/marian/run.py", "PAD_BIAS = -100.0", "PAD_BIAS = 0.0",
        "test_importing_marian::test_targets_have_the_same_probabilities",
    ),
    Mutation(
        "Marian's embeddings with trained positions", "Embeddings are scaled where Marian does not scale them.",
        "t2t/importing/marian/run.py", "np.float32(hparams.hidden_size**-0.5 if learned else 1.0)", "np.float32(1.0)",
        "test_importing_marian::test_positions_that_are_trained_have_embeddings_without_scale",
    ),
    Mutation(
        "norms in front of Marian's sub-layers", "The norms of a pre-norm model are not found.",
        "t2t/export/marian/names.py", 'suffix = "_pre" if hparams.norm_position == "pre" else ""', 'suffix = ""',
        "test_importing_marian::test_targets_have_the_same_probabilities",
    ),
    Mutation(
        "which merge of BPE codes comes first", "Words are cut into other pieces than the model knows.",
        "t2t/text/bpe_codes.py", "best = min(pairwise(pieces)", "best = max(pairwise(pieces)", "test_text_bpe",
    ),
    Mutation(
        "positions of mBART's other side", "An imported mBART reads the positions of its other side.",
        "t2t/importing/huggingface/language_models.py",
        '(("encoder", "source_positions"), ("decoder", "target_positions"))',
        '(("decoder", "source_positions"), ("encoder", "target_positions"))',
        "test_importing_huggingface_language_models::test_targets_have_the_same_probabilities_in_any_direction",
    ),
    Mutation(
        "ids of language codes", "An imported model is asked for the language next to the one that is named.",
        "t2t/importing/huggingface/language_vocabulary.py", "return {piece: first + number for",
        "return {piece: first + number + 1 for",
        "test_importing_huggingface_language_models::test_codes_are_found_in_other_files",
    ),
    Mutation(
        "the order of imported ids", "An imported model ends its outputs with the unknown piece.",
        "t2t/importing/ids.py", "first = [pad, eos, unknown]", "first = [pad, unknown, eos]",
        "test_importing_huggingface_marian::test_targets_have_the_same_probabilities",
    ),
    Mutation(
        "keys and values of Sockeye's heads",
        "Keys and values of imported attention are taken for those of other heads.",
        "t2t/importing/sockeye/weights.py", "packed.reshape(heads, 2, -1, packed.shape[-1])",
        "packed.reshape(2, heads, -1, packed.shape[-1]).swapaxes(0, 1)",
        "test_importing_sockeye::test_the_network_is_the_same",
    ),
    Mutation(
        "the first position of OpenNMT-tf", "Imported models of OpenNMT-tf count positions from 0.",
        "t2t/importing/opennmt_tf/run.py", "_FIRST_POSITION = 1", "_FIRST_POSITION = 0",
        "test_importing_opennmt_tf::test_a_model_of_the_catalogue",
    ),
    Mutation(
        "adapters of another base", "Adapters are added to weights that they were not trained on.",
        "t2t/runs/adapting.py", "if base.checkpoint.fingerprint == adapts.fingerprint:", "if base:",
        "test_adapters::test_adapters_of_another_base_are_refused",
    ),
    Mutation(
        "the language in front of texts in a graph",
        "A SavedModel of a run with languages reads texts without their code.",
        "t2t/export/served.py", "self._rows(_joined(self._marks.input_start, ids_BS))", "self._rows(ids_BS)",
        "test_export_served::test_languages_stand_around_texts_as_the_translator_puts_them",
    ),
    Mutation(
        "norms of OpenNMT's decoders", "The norms before self-attention and before attention to inputs are exchanged.",
        "t2t/importing/opennmt/model.py", '("layer_norm_1", "layer_norm_2", "feed_forward.layer_norm")',
        '("layer_norm_2", "layer_norm_1", "feed_forward.layer_norm")',
        "test_importing_opennmt::test_the_network_of_opennmt_py_is_the_same",
    ),
    Mutation(
        "the scale of CTranslate2's embeddings", "Embeddings that CTranslate2 does not scale are scaled.",
        "t2t/importing/ctranslate2/attributes.py",
        "return float(value) if not is_flag else math.sqrt(width) if value else 1.0", "return math.sqrt(width)",
        "test_importing_ctranslate2::test_the_network_is_the_same",
    ),
    Mutation(
        "the end of inputs that is not read", "Models without an end of inputs look at nothing else.",
        "t2t/layers/masks.py", "ops.logical_or(begins_BS, ops.logical_not(is_end_BS))",
        "ops.logical_or(begins_BS, is_end_BS)", "test_importing_opennmt::test_the_network_of_opennmt_py_is_the_same",
    ),
    Mutation(
        "names that a PyTorch file may ask for", "A file from a stranger runs what it names.",
        "t2t/importing/pytorch.py", 'if module == "torch" and name in _TYPES:',
        'if module in ("io", "_io"):\n            return open\n        if module == "torch":', "test_importing_pytorch",
    ),
    Mutation(
        "missing outputs of an export", "An export that gives fewer outputs than its run is no difference.",
        "t2t/export/parity.py", "if len(ours) == len(theirs) and all(map(_is_same, ours, theirs)):",
        "if all(map(_is_same, ours, theirs)):", "test_export_parity::test_a_missing_hypothesis_differs",
    ),
    Mutation(
        "scores of graphs without their first id",
        "The log-probability that the script beside graphs gives lacks the first id's.",
        "t2t/export/graph_script.py", "if position >= unscored else 0.0", "if position > unscored else 0.0",
        "test_export_step_graphs::test_a_recurrent_model_writes_as_the_run",
    ),
    Mutation(
        "shortest pieces in the graph", "A SavedModel cuts text into other pieces than the run was trained on.",
        "t2t/export/in_graph/subword.py", "tf.range(self._longest, 0, -1)", "tf.range(1, self._longest + 1)",
        "test_export_in_graph::test_ids_are_those_of_the_encoder",
    ),
    Mutation(
        "checkpoint asked for is not loaded", "Every name of a checkpoint decodes with the latest.",
        "t2t/runs/loading.py", "load_for_decoding(CheckpointStore(run.checkpoints_folder), checkpoint)",
        'load_for_decoding(CheckpointStore(run.checkpoints_folder), "latest")',
        "test_runs_loading::test_the_checkpoint_that_is_asked_for",
    ),
    Mutation(
        "conversion of another architecture",
        "A run record that does not fit the checkpoint is not noticed where a conversion is kept.",
        "t2t/runs/engines.py", "to_state(run.record.model, hparams), ", "",
        "test_runs_loading::test_a_kept_conversion_spares_building_the_model_and_no_check",
    ),
    Mutation(
        "hparams of a resumed run forgotten",
        "Going on with a run by its folder alone asks for another run than it is.",
        "t2t/runs/resuming.py",
        'changes["overrides"] = merge_hparams(record.hparams_set, record.overrides, request.overrides)',
        'changes["overrides"] = request.overrides', "test_runs_resuming",
    ),
    Mutation(
        "queue counts requests", "Requests of many texts fill the memory beyond the room that was set.",
        "t2t/serving/batcher.py", "len(self._queue) + len(items) > self.room", "len(self._queue) + 1 > self.room",
        "test_serving_batcher::test_more_than_there_is_room_for_is_refused_whole",
    ),
    Mutation(
        "batches do not wait", "Texts that come at about the same time are searched one by one.",
        "t2t/serving/batcher.py", "or left <= 0:", "or left <= self._wait_s:",
        "test_serving_batcher::test_an_item_alone_is_answered_after_its_wait",
    ),
    Mutation(
        "searched together whatever was asked", "The settings of one request are those of its neighbours.",
        "t2t/serving/models.py", "groups.setdefault((question.n_best, question.changes), [])",
        "groups.setdefault((question.n_best, questions[0].changes), [])",
        "test_serving_search_changes::test_equal_settings_are_searched_together",
    ),
    Mutation(
        "streams without end", "More answers are searched at a time than the server allows.",
        "t2t/serving/streams.py", "len(self._running) >= self._most", "len(self._running) > self._most",
        "test_serving_events::test_more_streams_than_allowed_are_answered_429",
    ),
    Mutation(
        "text can end a script element", "A sentence with a closing tag becomes markup of the page.",
        "t2t/serving/insight/page.py", r'text.replace("<", "\\u003c").replace(">"', 'text.replace(">"',
        "test_serving_insight_figures::test_hostile_text_stays_text",
    ),
    Mutation(
        "spikes are lost from curves", "A loss that jumped for one update looks as if it had not.",
        "t2t/serving/insight/thinning.py", "for pick in (np.argmin, np.argmax)]", "for pick in (np.argmin,)]",
        "test_serving_insight_thinning::test_no_spike_is_lost_wherever_it_is",
    ),
    Mutation(
        "half a line of figures is read", "A point that was being written while the page looked is never drawn.",
        "t2t/serving/insight/run_figures.py", r'whole = added[: added.rfind(b"\n") + 1]', "whole = added",
        "test_serving_insight_run_figures::test_what_was_added_is_taken_up_and_a_torn_line_waits_for_its_end",
    ),
    Mutation(
        "pieces are counted on one side", "A vocabulary that both sides share looks half as much used as it is.",
        "t2t/serving/insight/split_data.py", "for feature in features:\n                values",
        "for feature in features[:1]:\n                values",
        "test_serving_insight_data::test_pieces_are_counted_over_both_sides_of_a_shared_vocabulary",
    ),
    Mutation(
        "links are followed without a limit", "A link to a disk among runs has all of it searched every few seconds.",
        "t2t/runs/overview.py", "waiting.extend((link, LINK_LEVELS)", "waiting.extend((link, None)",
        "test_runs_overview::test_a_link_is_followed_a_few_levels_deep",
    ),
    Mutation(
        "a request names any checkpoint", "Who asks the service can have it read folders outside the runs.",
        "t2t/serving/insight/studio.py", "if str(checkpoint) not in known:", "if not str(checkpoint):",
        "test_serving_insight_studio::test_a_checkpoint_that_is_not_there_is_refused_and_no_path_is_read",
    ),
    Mutation(
        "mistakes have another exit status", "A script cannot tell a mistake of its own from a fault of the machine.",
        "t2t/cli/common.py", "return error.exit_status", "return 1",
        "test_cli_mistakes::test_an_output_directory_that_is_a_file",
    ),
    Mutation(
        "nan is a number for flags", "A flag of nan passes all bounds and spoils what it is used for.",
        "t2t/cli/common.py", "if isinstance(value, float) and not math.isfinite(value):",
        "if isinstance(value, float) and math.isinf(value):",
        "test_cli_mistakes::test_a_mistake_is_one_line_with_status_2",
    ),
    Mutation(
        "the best trial is the worst", "A study shows and repeats its worst trial.",
        "t2t/tuning/objective.py", "return -value if self.higher_is_better else value",
        "return value if self.higher_is_better else -value", "test_tuning_objective",
    ),
    Mutation(
        "a trial that falls behind trains on", "No trial is stopped early, and a study takes several times as long.",
        "t2t/tuning/study.py", "stops = update < self._last_update and trial.should_prune()",
        "stops = update > self._last_update and trial.should_prune()", "test_tuning_study",
    ),
    Mutation(
        "interrupted training looks finished",
        "A program of one's own goes on with a run that a signal has ended too early.",
        "t2t/runs/api.py", "    if stopped_by:\n", "    if stopped_by is None:\n",
        "test_python::test_training_that_a_signal_ends_is_an_interrupt",
    ),
    Mutation(
        "a shared database is another folder's",
        "A study in a database takes over trials of other machines that still train.",
        "t2t/tuning/study.py", "return not self.settings.storage or place ==", "return True or place ==",
        "test_tuning_study",
    ),
    Mutation(
        "failed trials come first", "The table of a study begins with trials that have failed.",
        "t2t/tuning/study.py", "return is_failed, one.value is None,", "return not is_failed, one.value is None,",
        "test_tuning_study",
    ),
    Mutation(
        "the later of equals", "A trial's best update is the last one with its best value.",
        "t2t/tuning/objective.py", "(self.cost(pair[1]), pair[0])", "(self.cost(pair[1]), -pair[0])",
        "test_tuning_objective",
    ),
    Mutation(
        "the scale is not mirrored", "A range on the reversed scale has its small steps at the lower end.",
        "t2t/tuning/space.py", "sum(one.values) - value if", "value if", "test_tuning_space",
    ),
    Mutation(
        "the grid repeats itself", "Values that nothing reads are tried again and again.",
        "t2t/tuning/space.py",
        "list({tuple(one.items()): one for one in map(read_ones, itertools.product(*values))}.values())",
        "list(map(read_ones, itertools.product(*values)))", "test_tuning_space",
    ),
    Mutation(
        "deviation of all there are", "The deviation over seeds is that of a population, and too small.",
        "t2t/tuning/results.py", "statistics.stdev(self.repeats)", "statistics.pstdev(self.repeats)",
        "test_tuning_results",
    ),
    Mutation(
        "a torn line of a journal stays", "After a killed writer, the journal of a study can never be read again.",
        "t2t/tuning/journal.py", "            cut_torn_line(self._file)\n", "            pass\n", "test_tuning_journal",
    ),
    Mutation(
        "pages of other sites", "A page that is open in the browser can use the service.",
        "t2t/serving/origins.py", 'origin.lower().partition("://")[2] != headers["host"].lower()',
        'origin.lower() == headers["host"].lower()', "test_serving_origins",
    ),
    Mutation(
        "any host name", "A site whose name is bound to this machine can use the service.",
        "t2t/serving/origins.py", "if not found or not (ANY in self._hosts or found[1].lower() in self._hosts):",
        "if not found:", "test_serving_origins",
    ),
    Mutation(
        "connections take all files", "The process has no file descriptors left for its own files.",
        "t2t/serving/connections.py", "min(self.count, (files - RESERVED_FILES) // 2)", "min(self.count, files)",
        "test_serving_connections::test_the_number_of_connections_follows_that_of_files",
    ),
    Mutation(
        "one request spoils its batch", "An input that fails has its neighbours fail.",
        "t2t/serving/batcher.py",
        "            if len(batch) == 1:\n                batch[0].future.set_exception(error)\n                "
        "return\n            for entry in batch:\n                self._resolve([entry])\n",
        "            for entry in batch:\n                entry.future.set_exception(error)\n", "test_serving_batcher",
    ),
    Mutation(
        "faults of workers look like mistakes", "A pipeline gives up where another try would have succeeded.",
        "t2t/pipelines/task.py", 'kind = "user" if isinstance(error, UserError) else "machine"', 'kind = "user"',
        "test_pipelines_pipeline test_pipelines_launch",
    ),
    Mutation(
        "a failure is not forgotten", "A pipeline fails for an element that another try has made.",
        "t2t/pipelines/pipeline.py", "        failures.remove(element)\n", "", "test_pipelines_pipeline",
    ),
    Mutation(
        "options of other runners", "Options that only the runner of a cluster knows are refused.",
        "t2t/pipelines/options.py", "if not runs_here(options):\n            create_runner",
        "if False:\n            create_runner", "test_pipelines_options",
    ),
    Mutation(
        "overwritten symbols keep their ids", "An imported model of fairseq reads words by the ids of others.",
        "t2t/importing/fairseq/dictionary.py", "        ids[symbol] = len(symbols)\n",
        "        ids.setdefault(symbol, len(symbols))\n", "test_importing_fairseq_dictionary",
    ),
    Mutation(
        "sides of pre-norm and post-norm",
        "Norms of an imported model of Sockeye stand at the other end of sub-layers.",
        "t2t/importing/sockeye/run.py", '{("n", "r"): "pre", ("", "rn"): "post"}',
        '{("n", "r"): "post", ("", "rn"): "pre"}', "test_importing_sockeye",
    ),
    Mutation(
        "ids that a model lacks are likely", "An imported model may write ids that it has never seen.",
        "t2t/importing/vocabulary.py", "known_U.min() - np.float32(_NEVER)", "known_U.min()",
        "test_importing_opennmt test_importing_sockeye test_importing_opennmt_tf test_importing_ctranslate2",
    ),
    Mutation(
        "the last of equal tokens", "Of equal lines of a vocabulary another one than the toolkit's is its token.",
        "t2t/importing/vocabulary.py", "in reversed(list(enumerate(tokens)))", "in enumerate(tokens)",
        "test_importing_opennmt test_importing_sockeye test_importing_opennmt_tf test_importing_ctranslate2",
    ),
)
# fmt: on
