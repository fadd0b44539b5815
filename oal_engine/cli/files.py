"""The options of commands that read a file."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..datasets import TEXT_FEATURES
from ..datasets.features import embeddings
from ..datasets.features.scaling import SCALINGS, VECTOR_FEATURES
from ..datasets.reading import MISSING, Columns, peek, read_vectors, readers, sources
from ..datasets.reading.file import Vectors as VectorTable
from .terminal import number, pairs

DEFAULTS = ", ".join(f"{name}={most:,}" for name, most in asdict(sources.LIMITS).items())
Text = Annotated[list[str] | None, Option("--text", help="A column of text; repeat it to join several.")]
Label = Annotated[str | None, Option("--label", help="The column of labels (default: detected; empty: none).")]
Id = Annotated[str | None, Option("--id", help="The column of ids (default: detected; empty: the line number).")]
Vectors = Annotated[
    Path | None,
    Option(help="A .npy or Parquet file of vectors that stand beside the texts, one for each row of the file."),
]
Embed = Annotated[
    Path | None,
    Option(help="A folder of static token embeddings (model2vec, WordLlama), which make vectors beside the texts."),
]
Texts = Annotated[bool, Option("--texts", help="Add the text of each item, or the numbers of its file.")]


@dataclass(frozen=True)
class _Options:
    """A group of options, which knows those that are not at their defaults."""

    def changed(self) -> list[str]:
        """The names of the options with another value than their default."""
        return [
            f"--{field.name.replace('_', '-')}" for field in fields(self) if getattr(self, field.name) != field.default
        ]


@dataclass(frozen=True)
class Reading(_Options):
    """How a file is opened, and how much of it is accepted."""

    reader: Annotated[str | None, Option(help=f"File format: {', '.join(readers.READERS)} (default: detected).")] = None
    encoding: Annotated[str, Option(help=f"Text encoding: {', '.join(sources.ENCODINGS)}.")] = "utf-8"
    delimiter: Annotated[
        str | None,
        Option(help="What separates the cells of a table: a sign, or its name, such as tab (default: detected)."),
    ] = None
    header: Annotated[
        bool | None, Option("--header/--no-header", help="Whether the first row names the columns (default: detected).")
    ] = None
    sheet: Annotated[str | None, Option(help="The sheet of an Excel workbook (default: the only one with rows).")] = (
        None
    )
    limit: Annotated[
        list[str] | None,
        Option(metavar="NAME=NUMBER", help=f"A limit on what a file may hold; repeatable (default: {DEFAULTS})."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """What the functions that read files are given."""
        layout = sources.Layout(self.delimiter, self.header, self.sheet)
        return {"reader": self.reader, "encoding": self.encoding, "limits": self.limits, "layout": layout}

    @property
    def of_lines(self) -> dict[str, Any]:
        """What the function that reads a feed is given."""
        arguments = self.arguments
        if arguments.pop("layout") != sources.Layout():
            raise ValueError("--delimiter, --header and --sheet are for tables. Got one for the lines of a feed.")
        return arguments

    def vectors(self, path: Path | None) -> VectorTable | None:
        """The vectors of a file that stand beside the texts of another, if there is one."""
        return read_vectors(path, limits=self.limits) if path else None

    @property
    def limits(self) -> sources.Limits:
        """The limits, with those that were set on the command line."""
        values = {key: int(number(value, f"--limit {key}", "a number")) for key, value in pairs("--limit", self.limit)}
        for key, value in values.items():
            if key not in asdict(sources.LIMITS):
                raise ValueError(f"--limit has no {key}. It has {', '.join(asdict(sources.LIMITS))}.")
            if value < 1:
                raise ValueError(f"--limit {key} must be >= 1. Got {value}.")
        return replace(sources.LIMITS, **values)


@dataclass(frozen=True)
class Importing(_Options):
    """What the columns of a file mean, and what rows are made of them."""

    text: Text = None
    label: Label = None
    positive: Annotated[list[str] | None, Option(help="A label that counts as positive; repeatable.")] = None
    contains: Annotated[
        bool | None, Option("--contains/--no-contains", help="Cells may hold several labels (a|b).")
    ] = None
    multiclass: Annotated[bool, Option("--multiclass", help="Each label is a class of its own.")] = False
    mesh_tree: Annotated[Path | None, Option(help="A file with lines of DESCRIPTOR;TREE NUMBER.")] = None
    mesh_number: Annotated[str | None, Option(help="Headings at or below this MeSH tree number are positive.")] = None
    id: Id = None
    feature: Annotated[
        list[str] | None,
        Option(
            help="A numeric column; repeatable (default: all). With --text: a column of numbers, or of lists of them, "
            "that stands beside the texts (default: none)."
        ),
    ] = None
    missing: Annotated[
        str | None,
        Option(
            help="What becomes of cells that hold no number: "
            + ", ".join(f"{name} {what}" for name, what in MISSING.items())
            + "."
        ),
    ] = None
    scale: Annotated[
        str | None,
        Option(help=f"Scaling of rows: {', '.join(SCALINGS)} (default: l2, for --features fourier standardize+l2)."),
    ] = None
    features: Annotated[
        str | None,
        Option(
            help=f"What rows are made of: {', '.join(TEXT_FEATURES)} for texts (default: the first), "
            f"{' or '.join(VECTOR_FEATURES)} for numbers (default: what suits the columns). A replay of a file takes "
            "words or plain columns, but for auto, auto-sum and auto-classes."
        ),
    ] = None
    vectors: Vectors = None
    embed: Embed = None
    tokenizer: Annotated[
        str | None, Option(help="For --features words: words, or tweets, which keeps #, @ and emoji (default: tweets).")
    ] = None

    @property
    def vectorizer(self) -> dict[str, Any]:
        """How items become rows, as far as it was said."""
        made_of = {name: value for name in ("features", "tokenizer") if (value := getattr(self, name)) is not None}
        return made_of | ({"embedding": embeddings.read(self.embed)} if self.embed else {})

    def columns(self, path: Path | str, reading: Reading) -> Columns:
        """The columns that were named, completed by those that are detected in the file."""
        if bool(self.mesh_tree) != bool(self.mesh_number):
            raise ValueError("--mesh-tree FILE and --mesh-number NUMBER must be given together.")
        if self.mesh_tree and (self.positive or self.contains or self.multiclass):
            raise ValueError("--mesh-tree cannot be combined with --positive, --contains or --multiclass.")
        head = peek(path, **reading.arguments)
        detected = head.guess
        label = detected.label if self.label is None else self.label
        own_rule = bool(self.positive or self.contains or self.mesh_tree or label != detected.label)
        head.settle(
            label or None, True if self.multiclass or self.mesh_tree else self.contains, named=self.label is not None
        )
        positive = tuple(self.positive or ())
        if self.mesh_tree and self.mesh_number:
            positive = readers.mesh_terms(self.mesh_tree, self.mesh_number, limits=reading.limits)
        return Columns(
            text=tuple(self.text) if self.text else () if self.feature else detected.text,
            label=label or None,
            id=detected.id if self.id is None else self.id or None,
            guessed_id=detected.guessed_id and self.id is None,
            missing=self.missing,
            features=tuple(self.feature) if self.feature else detected.features,
            positive=positive,
            contains=bool(self.contains),
            multiclass=self.multiclass or (detected.multiclass and not own_rule),
            unknown=detected.unknown if label == detected.label else (),
            headings=self.mesh_tree is not None,
        )
