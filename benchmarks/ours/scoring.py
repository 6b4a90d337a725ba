"""Scores the outputs of all sides with a run's latest checkpoint."""

from benchmarks.harness.child import read_job, write_result
from benchmarks.ours.decoding import build_translator


def main():
    """Writes the log-probabilities of the outputs of each side."""
    job = read_job()
    translator = build_translator(job["run"], never_ending=False)
    scores = {name: translator.score_ids(job["sentences"], outputs) for name, outputs in job["outputs"].items()}
    write_result(job, scores=scores)


if __name__ == "__main__":
    main()
