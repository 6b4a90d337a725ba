"""The benchmarks that `python -m benchmarks all` runs, with their flags."""

import argparse
import dataclasses

MINI = ("--config=mini",)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Part:
    """A benchmark with flags."""

    name: str
    benchmark: str
    """Its name in `python -m benchmarks NAME`."""
    full: tuple[str, ...] = ()
    """Flags of a full run."""
    quick: tuple[str, ...] | None = None
    """Flags of a `--quick` run, which only checks that it works; None to skip it there."""
    has_rows: bool = True
    """Whether it is a comparison: it takes the shared flags and writes rows."""

    def flags(self, arguments: argparse.Namespace) -> list[str]:
        """Returns its complete flags, given the parsed flags of `python -m benchmarks all`."""
        flags = list((self.quick or ()) if arguments.quick else self.full)
        if not self.has_rows:
            return flags
        flags += [f"--peers_home={arguments.home.expanduser().absolute()}", f"--again={arguments.again}"]
        if arguments.data is not None:
            flags.append(f"--data={arguments.data.absolute()}")
        if arguments.no_peers:
            flags.append("--peers=")
        if arguments.quick:
            flags += ["--pairs=400", "--vocab_size=600"]
        if arguments.turns or arguments.quick:
            flags.append(f"--turns={arguments.turns or 1}")
        return flags


PARTS = (
    Part(name="startup", benchmark="startup", quick=()),
    Part(name="datagen", benchmark="datagen", quick=(*MINI, "--steps=2", "--warm=1")),
    Part(name="datagen-large", benchmark="datagen", full=("--pairs=290000",)),
    Part(name="training-tiny", benchmark="training", full=("--config=tiny",), quick=MINI),
    Part(
        name="decoding-tiny", benchmark="decoding", full=("--config=tiny",),
        quick=(*MINI, "--train_steps=2", "--sentences=4", "--batch=2", "--beams=2,1"),
    ),
    Part(name="training-base", benchmark="training", full=("--config=base",)),
    Part(name="decoding-base", benchmark="decoding", full=("--config=base", "--beams=4")),
    Part(
        name="decoding-base-trained", benchmark="decoding",
        full=("--config=base", "--train_steps=2000", "--sentences=320", "--beams=4,1"),
    ),
    Part(name="engines-tiny", benchmark="engines", full=("--config=tiny",)),
    Part(name="engines-base", benchmark="engines", full=("--config=base", "--beams=4")),
    Part(
        name="models", benchmark="models",
        quick=("--sets=transformer_multi30k_tiny,gnmt_multi30k_tiny", "--warm=1", "--steps=1", "--sentences=4"),
    ),
    Part(
        name="serving", benchmark="serving", full=("--config=tiny",),
        quick=(*MINI, "--clients=1,2", "--seconds=1", "--warm_up=0.5"),
    ),
    Part(
        name="growth", benchmark="growth", full=("--config=small",),
        quick=(*MINI, "--lengths=16", "--replicas=", "--workers=", "--outputs=", "--corpora=400"),
    ),
    Part(name="memory", benchmark="memory", quick=("--pairs=400", "--vocab_size=600", "--updates=2"), has_rows=False),
    Part(name="soak", benchmark="soak", quick=("--updates=40", "--every=10"), has_rows=False),
)  # fmt: skip
"""All parts, in the order in which they run."""
