"""The options of commands that read a file."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from ..datasets.features import SCALINGS, TEXT_FEATURES, VECTOR_FEATURES
from ..datasets.reading import MISSING, Columns, peek, read_vectors, readers, sources
from ..datasets.reading.file import Vectors as VectorTable
from .terminal import number, pairs, set_options

DEFAULTS = ", ".join(f"{name}={most:,}" for name, most in asdict(sources.LIMITS).items())
Text = Annotated[list[str] | None, Option("--text", help="A column of text; repeat it to join several.")]
Label = Annotated[str | None, Option("--label", help="The column of labels (default: detected; empty: none).")]
Id = Annotated[str | None, Option("--id", help="The column of ids (default: detected; empty: the line number).")]
Vectors = Annotated[
    Path | None,
    Option(help="A .npy or Parquet file with a vector for each row of the file, to learn from with its text."),
]
Embed = Annotated[
    Path | None,
    Option(help="A folder of static token embeddings (model2vec, WordLlama), which turn each text into a vector too."),
]
Texts = Annotated[bool, Option("--texts", help="Add the text of each item, or the numbers of its file.")]
Cut = Annotated[
    float | None,
    Option(
        help="The smallest score of the audited column that says positive (default: 0.5 of scores from 0 to 1, 0 if "
        "some are negative)."
    ),
]


@dataclass(frozen=True)
class _Options:
    """A group of options."""

    def changed(self) -> list[str]:
        """Return the names of the options that are not at their defaults."""
        return [f"--{each.name.replace('_', '-')}" for each in fields(self) if getattr(self, each.name) != each.default]


@dataclass(frozen=True)
class Reading(_Options):
    """How a file is opened, and how much of it is accepted."""

    reader: Annotated[str | None, Option(help=f"File format: {', '.join(readers.READERS)} (default: detected).")] = None
    encoding: Annotated[str, Option(help=f"Text encoding: {', '.join(sources.ENCODINGS)}.")] = "utf-8"
    delimiter: Annotated[
        str | None,
        Option(help="The characters between the cells of a table, or their name, such as tab (default: detected)."),
    ] = None
    header: Annotated[
        bool | None, Option("--header/--no-header", help="Whether the first row names the columns (default: detected).")
    ] = None
    paragraphs: Annotated[
        bool | None,
        Option(
            "--paragraphs/--no-paragraphs", help="Whether a text of a file of lines is a paragraph (default: a line)."
        ),
    ] = None
    sheet: Annotated[str | None, Option(help="The sheet of a workbook (default: the only one with rows).")] = None
    member: Annotated[
        str | None, Option(help="The file, or the folder of files, of an archive or folder to read (default: all).")
    ] = None
    each: Annotated[
        str | None,
        Option(help="Whether each text file of an archive or folder is one text (file), or each line (line)."),
    ] = None
    limit: Annotated[
        list[str] | None,
        Option(metavar="NAME=NUMBER", help=f"A limit on the size of a file; repeatable (default: {DEFAULTS})."),
    ] = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for the functions that read files."""
        if self.each not in (None, "file", "line"):
            raise ValueError(f"--each must be file or line. Got {self.each}.")
        layout = sources.Layout(self.delimiter, self.header, self.sheet, self.member, self.each, self.paragraphs)
        return {"reader": self.reader, "encoding": self.encoding, "limits": self.limits, "layout": layout}

    @property
    def of_lines(self) -> dict[str, Any]:
        """Keyword arguments for the function that reads the lines of a feed."""
        arguments = self.arguments
        if arguments.pop("layout") != sources.Layout():
            raise ValueError(
                "--delimiter, --header, --sheet and --paragraphs are for files. Got one for a feed of lines."
            )
        return arguments

    def vectors(self, path: Path | None) -> VectorTable | None:
        """Read the file of vectors at `path`, which belong to the rows of another file. None if there is no path."""
        return read_vectors(path, limits=self.limits) if path else None

    @property
    def limits(self) -> sources.Limits:
        """The limits on the size of a file, with the values set on the command line."""
        values = {key: int(number(value, f"--limit {key}", "a number")) for key, value in pairs("--limit", self.limit)}
        for key, value in values.items():
            if key not in asdict(sources.LIMITS):
                raise ValueError(f"--limit has no {key}. It has {', '.join(asdict(sources.LIMITS))}.")
            if value < 1:
                raise ValueError(f"--limit {key} must be >= 1. Got {value}.")
        return replace(sources.LIMITS, **values)


@dataclass(frozen=True)
class Importing(_Options):
    """The meaning of a file's columns, and the features that are computed from them."""

    text: Text = None
    label: Label = None
    positive: Annotated[list[str] | None, Option(help="A label that counts as positive; repeatable.")] = None
    unknown: Annotated[
        list[str] | None,
        Option(help='A label word that means "no label"; repeatable, empty for none (default: NA, NULL and the like).'),
    ] = None
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
            help="A numeric column; repeatable (default: all). With --text: a column of numbers, or of lists of "
            "numbers, to learn from with the texts (default: none)."
        ),
    ] = None
    missing: Annotated[
        str | None,
        Option(
            help="Treatment of cells without a number: "
            + ", ".join(f"{name} {what}" for name, what in MISSING.items())
            + "."
        ),
    ] = None
    scale: Annotated[
        str | None,
        Option(help=f"Scaling of rows: {', '.join(SCALINGS)} (default: l2, for waves and leaves standardize+l2)."),
    ] = None
    features: Annotated[
        str | None,
        Option(
            help=f"Features computed for each row: {', '.join(TEXT_FEATURES)} for texts (default: the first), "
            f"{', '.join(VECTOR_FEATURES)} for numbers (default: by the columns). A replay of a file uses words or "
            "plain columns, except for auto, auto-sum and auto-classes."
        ),
    ] = None
    vectors: Vectors = None
    embed: Embed = None
    tokenizer: Annotated[
        str | None, Option(help="For --features words: words, or tweets, which keeps #, @ and emoji (default: tweets).")
    ] = None

    @property
    def vectorizer(self) -> dict[str, Any]:
        """The options that were set for computing features."""
        values: dict[str, Any] = set_options(features=self.features, tokenizer=self.tokenizer)
        if self.embed:
            from ..datasets.features import embeddings  # late, like all that an error in an option need not wait for

            values["encoder"] = embeddings.read(self.embed)
        return values

    def columns(self, path: Path | str, reading: Reading) -> Columns:
        """Return the columns that the options name, completed by the columns detected in the file."""
        if bool(self.mesh_tree) != bool(self.mesh_number):
            raise ValueError("--mesh-tree FILE and --mesh-number NUMBER must be given together.")
        if self.mesh_tree and (self.positive or self.contains or self.multiclass):
            raise ValueError("--mesh-tree cannot be combined with --positive, --contains or --multiclass.")
        columns = {"text": self.text, "features": self.feature}
        named: dict[str, Any] = {role: tuple(names) for role, names in columns.items() if names}
        named |= {role: name or None for role, name in set_options(label=self.label, id=self.id).items()}
        if self.mesh_tree:
            named.setdefault("label", "mesh")
        head = peek(path, named=named, **reading.arguments)
        guess, own_rule = head.guess, bool(self.positive or self.contains or self.mesh_tree)
        contains = True if self.multiclass or self.mesh_tree else self.contains
        head.settle(guess.label, contains, named=self.label is not None)
        positive = tuple(self.positive or ())
        if self.mesh_tree and self.mesh_number:
            positive = readers.mesh_terms(self.mesh_tree, self.mesh_number, limits=reading.limits)
        return replace(
            guess,
            missing=self.missing,
            positive=positive,
            contains=bool(self.contains),
            multiclass=self.multiclass or (guess.multiclass and not own_rule),
            unknown=guess.unknown if self.unknown is None else (*filter(None, self.unknown),),
            headings=self.mesh_tree is not None,
        )
