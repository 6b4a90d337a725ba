"""The command of a trial."""

from t2t.tuning.tuner import TrialCommand


def test_searched_values_come_before_the_others_and_drop_what_they_leave_unread():
    """As ranges of hparams that a value leaves unread are not searched."""
    others = "positions=words,read_next_word=true,num_heads=2"
    command = TrialCommand(("--problem=p",), others, "transformer_tiny", 3, check=lambda overrides: None)
    assert command.overrides_of({"num_heads": 4}) == "positions=words,read_next_word=true,num_heads=4"
    assert command.overrides_of({"positions": "rotary"}) == "num_heads=2,positions=rotary"
    assert command.arguments_of({"positions": "none"}, 5) == [
        "--problem=p", "--hparams=num_heads=2,positions=none", "--random_seed=5",
    ]  # fmt: skip
