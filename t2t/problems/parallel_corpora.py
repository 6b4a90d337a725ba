"""Parallel corpora of Tensor2Tensor other than WMT: talks in Vietnamese and Indonesian, news in Macedonian.

One instance of English to Vietnamese:
    inputs   I grew up in a small town by the sea .
    targets  Tôi lớn lên ở một thị trấn nhỏ bên bờ biển .

IWSLT'15 English-Vietnamese, TED talks: train 133,000 pairs, tokenised, dev tst2012 (1,553), test tst2013 (1,268).
IWSLT'17 English-Indonesian, TED talks, and the news of PANL-BPPT: train 109,335 and 24,024 pairs, tokenised, dev
tst2017plus (1,478).
SETimes English-Macedonian, news of South-East Europe, with the pairs of MULTEXT-East's "1984" as dev (4,986).
Source: Cettolo et al. 2015, "The IWSLT 2015 Evaluation Campaign", files of https://nlp.stanford.edu/projects/nmt/;
Cettolo et al. 2017, "Overview of the IWSLT 2017 Evaluation Campaign", and PAN Localization, both as files of
https://github.com/prasastoadi/parallel-corpora-en-id;
Tyers and Alperen 2010, "South-East European Times: A parallel corpus of Balkan languages", files of
http://nlp.ffzg.hr/resources/corpora/setimes/; Erjavec 2012, "MULTEXT-East", files of
https://github.com/stefan-it/nmt-en-mk.
Licence: TED talks CC BY-NC-ND 4.0; PANL-BPPT, SETimes and MULTEXT-East as their sites state.
"""

from typing import Any

from t2t.problems.translation import TranslationFiles
from t2t.registry import register_problem
from t2t.specs.constants import DEV, TEST, TRAIN

_STANFORD = "https://nlp.stanford.edu/projects/nmt/ (IWSLT'15 English-Vietnamese)"
_INDONESIAN_FILES = "https://github.com/prasastoadi/parallel-corpora-en-id (unpack its .tok.tgz files)"
_SETIMES = (
    "http://nlp.ffzg.hr/resources/corpora/setimes/ (setimes.en-mk.txt.tgz) and https://github.com/stefan-it/nmt-en-mk "
    "(MTE-1984-dev.enmk.tgz)"
)
_VIETNAMESE: dict[str, Any] = {
    "target_language": "vi",
    "split_files": {
        TRAIN: ("train.en", "train.vi"), DEV: ("tst2012.en", "tst2012.vi"), TEST: ("tst2013.en", "tst2013.vi"),
    },
    "home": _STANFORD,
}  # fmt: skip
_PANL_BPPT = ("ECO-{}-150Kw", "INT-{}-150Kw", "SCI-{}-100Kw", "SPO-{}-100Kw")
"""Parts of that corpus, of economics, world affairs, science and sport."""
_INDONESIAN: dict[str, Any] = {
    "target_language": "id",
    "split_files": {
        TRAIN: (
            "IWSLT17.train.en-id.tok.en", "IWSLT17.train.en-id.tok.id",
            *(f"PANL-BPPT-{part.format(side)}.tok.txt" for part in _PANL_BPPT for side in ("EN", "ID")),
        ),
        DEV: ("IWSLT17.TED.tst2017plus.en-id.tok.en", "IWSLT17.TED.tst2017plus.en-id.tok.id"),
    },
    "home": _INDONESIAN_FILES,
}  # fmt: skip
_MACEDONIAN: dict[str, Any] = {
    "target_language": "mk",
    "split_files": {
        TRAIN: ("setimes.en-mk.en.txt", "setimes.en-mk.mk.txt"), DEV: ("MTE1984-dev.en", "MTE1984-dev.mk"),
    },
    "home": _SETIMES,
}  # fmt: skip
_PIECES_32K: dict[str, Any] = {"vocab_size": 2**15}
_BYTES: dict[str, Any] = {"vocab_kind": "byte", "max_length": 1024}

_PROBLEMS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("translate_envi_iwslt32k", "TED talks, English to Vietnamese (IWSLT'15, 133,000 pairs, 32k pieces).",
     _VIETNAMESE | _PIECES_32K),
    ("translate_enid_iwslt32k", "TED talks and news, English to Indonesian (IWSLT'17, 133,000 pairs, 32k pieces).",
     _INDONESIAN | _PIECES_32K),
    ("translate_enmk_setimes32k", "News, English to Macedonian (SETimes, 32k pieces).", _MACEDONIAN | _PIECES_32K),
    ("translate_enmk_setimes_characters", "News, English to Macedonian (SETimes, bytes).", _MACEDONIAN | _BYTES),
)  # fmt: skip
"""Name, summary and attributes of each."""

for _name, _summary, _attributes in _PROBLEMS:
    _attributes = {"__doc__": _summary, "__module__": __name__, "source_language": "en", **_attributes}
    register_problem(_name)(type(_name, (TranslationFiles,), _attributes))
