"""`t2t-exporter --format=huggingface` on the command line, with transformers itself, which takes long to import."""

import json

import pytest

import t2t
from tests.peers import with_transformers
from tests.readme import ROOT, block, blocks, succeed
from tests.reference import marian

pytestmark = pytest.mark.slow

OWN = r"""
problem="--problem=text2text_files --data_dir=data"
t2t-datagen $problem --train_source=train.source --train_target=train.target --dev_source=dev.source \
  --dev_target=dev.target --vocab_kind=sentencepiece --vocab_size=300
run="$problem --model=transformer --hparams_set=transformer_tiny --worker_cpu=1 --eval_steps=1 --train_steps=8"
sizes="hidden_size=16,filter_size=32,num_heads=2,batch_size=256,max_length=64,num_hidden_layers=1,extra_length=4"
t2t-trainer $run --hparams=$sizes --output_dir=base --local_eval_frequency=8
t2t-trainer $run --hparams="$sizes,lora_rank=2,lora_targets=query_kernel|ffn" --warm_start_from=base \
  --output_dir=adapted --local_eval_frequency=4
t2t-avg-all --output_dir=adapted --n=2
t2t-exporter --output_dir=base --data_dir=data --export_dir=of_base --format=huggingface
t2t-exporter --output_dir=adapted --data_dir=data --checkpoint=averaged --export_dir=of_adapters --format=huggingface
"""
IMPORT = "t2t-import --from=huggingface --model_dir=opus --output_dir=imported\n"


def test_the_commands_of_the_page(tmp_path):
    """An imported translator is exported and imported again; the code of its model card runs unchanged."""
    marian.write_model(tmp_path / "opus")
    shown = block("export-huggingface", page=ROOT / "docs/exporting.md")
    shown = shown.replace("--format=huggingface", "--format=huggingface --parity_lines=12")
    succeed(with_transformers(tmp_path / "path") + IMPORT + shown, tmp_path)
    parity = json.loads((tmp_path / "translator/t2t_export.json").read_text())["parity"]
    assert parity["ids of texts"]["identical"] == parity["greedy search"]["identical"] == 12
    assert parity["beam search of 6"]["promised"] is None
    first, again = (t2t.load(str(tmp_path / name)) for name in ("imported", "again"))
    for ours, theirs in zip(first.model.variables, again.model.variables, strict=True):
        assert (ours.numpy() == theirs.numpy()).all(), ours.path
    (card,) = blocks(tmp_path / "translator/README.md")
    (tmp_path / "card.py").write_text(card.text)
    assert succeed(with_transformers(tmp_path / "other") + "python card.py", tmp_path).stdout.strip()


def test_runs_trained_here_with_adapters_and_averages(tiny_run, tmp_path):
    for file in tiny_run.raw_dir.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    printed = succeed(with_transformers(tmp_path / "path") + OWN, tmp_path).stdout
    assert "greedy search: 12 of 12 outputs are those of the run" in printed
    card = (tmp_path / "of_base/README.md").read_text()
    assert "Scores on the dev split after update 8" in card
    assert "| bleu | " in card
    assert "has no scores of this checkpoint" in (tmp_path / "of_adapters/README.md").read_text()
