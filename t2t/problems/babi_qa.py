"""bAbI: twenty small tasks of reading and reasoning.

One instance, of task 1:
    inputs   mary moved to the bathroom . john went to the hallway . where is mary ?
    targets  bathroom

Inputs are the story up to the question and the question itself, in words; the words of an answer are separated by
spaces. Of long stories the last 70 sentences are kept, 130 in task 3 (Henaff et al. 2017, arXiv:1612.03969). Each task
has 1,000 or 10,000 training questions (`_1k`, `_10k`), of which the last tenth of the stories is held out as the dev
split, and 1,000 test questions.
Source: Weston et al. 2015, "Towards AI-complete question answering" (arXiv:1502.05698); `tasks_1-20_v1-2` as folder or
archive. Licence: CC BY 3.0.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

from t2t.errors import UserError
from t2t.files.lines import clean_line
from t2t.problems.archives import find_first_existing, read_members
from t2t.problems.base import GenerationContext, Sample, subclass
from t2t.problems.text_problems import Text2Text
from t2t.registry import register_problem
from t2t.specs import DEV, INPUTS, TARGETS, TEST, TRAIN

_ROOT = "tasks_1-20_v1-2"
_FILES = (_ROOT, f"{_ROOT}.tar.gz", f"{_ROOT}.tar.xz", f"{_ROOT}.tgz", f"{_ROOT}.zip")
_TASKS = range(1, 21)
_SENTENCES, _SENTENCES_OF_TASK_3 = 70, 130


class BabiQa(Text2Text):
    """Base class of all tasks."""

    splits = (TRAIN, DEV, TEST)
    vocab_kind = "token"
    vocab_size = 2000
    max_length = 1024
    metrics = ("accuracy_per_sequence", "accuracy")
    tasks: ClassVar[Sequence[int]] = ()
    """Numbers of the tasks."""
    folder: ClassVar[str] = "en"
    """Folder of the size: `en` (1,000 questions) or `en-10k`."""

    def generate_samples(self, split: str, context: GenerationContext) -> Iterator[Sample]:
        """Yields the questions of a split; those of several tasks alternate."""
        self.check_split(split)
        data_path = find_first_existing(context.tmp_dir, _FILES)
        if data_path is None:
            raise UserError(
                f"{self.name}: {_ROOT} is missing from {context.tmp_dir}",
                f"put it there as folder or archive ({', '.join(_FILES[1:])}) or name its folder with --tmp_dir",
            )
        by_task = [self._questions(data_path, task, split, context.tally) for task in self.tasks]
        for turn in range(max(map(len, by_task))):
            yield from (questions[turn] for questions in by_task if turn < len(questions))

    def raw_files(self, tmp_dir: Path) -> dict[str, Path]:
        """Returns the archive, or the files of the folder, whichever is read."""
        data_path = find_first_existing(tmp_dir, _FILES)
        if data_path is None or data_path.is_file():
            return super().raw_files(tmp_dir) | ({data_path.name: data_path} if data_path else {})
        files = [path for task in self.tasks for path in sorted(data_path.glob(f"{self.folder}/qa{task}_*.txt"))]
        return super().raw_files(tmp_dir) | {path.name: path for path in files}

    def requirements(self) -> str:
        """Returns which folder or archive a user must provide."""
        return f"{_ROOT} in --tmp_dir, as folder or archive ({', '.join(_FILES[1:])})"

    def _questions(self, data_path: Path, task: int, split: str, tally: Counter[str]) -> list[Sample]:
        part = TEST if split == TEST else TRAIN
        pattern = re.compile(rf"(.*/)?{_ROOT}/{self.folder}/qa{task}_[^/]*_{part}\.txt")
        found = read_members(data_path, lambda path: pattern.fullmatch(path) is not None)
        if not found:
            raise UserError(f"{self.name}: {data_path} has no {self.folder}/qa{task}_*_{part}.txt", "download it again")
        (name, content), *_ = found.items()
        lines = [clean_line(raw, tally) for raw in content.split(b"\n")]
        stories = list(read_stories(lines, name, _SENTENCES_OF_TASK_3 if task == 3 else _SENTENCES))
        held_out = max(1, len(stories) // 10)
        chosen = {TRAIN: stories[:-held_out], DEV: stories[-held_out:], TEST: stories}[split]
        return [question for story in chosen for question in story]


def read_stories(lines: Sequence[str], name: str, sentences: int) -> Iterator[list[Sample]]:
    """Yields the questions of each story.

    Args:
        lines: of a file. Each has a number, which is 1 where a story begins, a space, and a sentence; or, after the
            number, a question, a TAB, its answer, a TAB and the numbers of the sentences that support the answer.
        name: of the file, for messages.
        sentences: number of sentences to keep, the last ones before a question.

    Raises:
        UserError: a line is none of these.
    """
    story: list[str] = []
    questions: list[Sample] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        position, _, rest = line.partition(" ")
        if not position.isdecimal() or not rest.strip():
            raise UserError(f"{name}, line {number:,}: {line[:40]!r} has no number and sentence", "download it again")
        if position == "1":
            if questions:
                yield questions
            story, questions = [], []
        sentence, *answers = rest.split("\t")
        if answers:
            inputs = " ".join([*story[-sentences:], _words(sentence)])
            questions.append({INPUTS: inputs, TARGETS: " ".join(_words(answers[0]).replace(",", " ").split())})
        else:
            story.append(_words(sentence))
    if questions:
        yield questions


def _words(sentence: str) -> str:
    return " ".join(re.sub(r"([.?!])", r" \1 ", sentence.lower()).split())


_MANY = "Questions about short stories, the twenty tasks of bAbI together ({} questions each)."
for _size, _folder in (("1k", "en"), ("10k", "en-10k")):
    _problems: dict[str, tuple[str, Sequence[int]]] = {
        f"task{_task}": (f"Questions about short stories, task {_task} of bAbI ({_size} questions).", (_task,))
        for _task in _TASKS
    }
    for _which, (_summary, _tasks) in {**_problems, "all_tasks": (_MANY.format(_size), tuple(_TASKS))}.items():
        _name = f"babi_qa_concat_{_which}_{_size}"
        register_problem(_name)(subclass(BabiQa, _name, _summary, __name__, tasks=_tasks, folder=_folder))
