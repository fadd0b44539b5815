"""The command line: python -m oal_engine COMMAND, or oal COMMAND if installed."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_install_completion_arguments

from .. import __version__, did_you_mean

MODULES = {  # {command: its module}
    **dict.fromkeys(["import", "append", "audit"], "data"), "datasets": "lists",
    "sessions": "lists", "algorithms": "replays",
    "replay": "replays", "export": "sessions", "predict": "sessions", "compare": "comparisons", "tune": "comparisons",
    "results": "comparisons", "race": "comparisons", "add-labels": "sessions", "verify": "sessions",
    "publish": "sessions", "adopt": "sessions", "answers-to-check": "sessions", "reproduce": "comparisons",
    "backup": "backups", "check": "backups", "restore": "backups", **dict.fromkeys(["token"], "lists"),
}  # fmt: skip
REPEATED = ("--text", "--positive", "--feature", "--set", "--details", "--show")


def load(name: str) -> Callable[..., None]:
    """Import the module of a command, and return its function."""
    return _with_field_options(getattr(import_module(f".{MODULES[name]}", __package__), _function_name(name)))


def _function_name(name: str) -> str:
    return f"{name}_" if iskeyword(name) else name.replace("-", "_")


def command(name: str) -> Any:
    """Return the parser of a command with all its options."""
    return _parser(load(name), name)


def _with_field_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each parameter whose type is a data class with one option for each field of the data class."""
    groups: dict[str, type[Any]] = {}
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if isinstance(group := parameter.annotation, type) and is_dataclass(group):
            groups[parameter.name] = group
            options += inspect.signature(group).parameters.values()
        else:
            options.append(parameter)

    @wraps(command)
    def from_options(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    keywords = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in options]
    from_options.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    from_options.__annotations__ = {option.name: option.annotation for option in options}
    return from_options


@cache
def _summaries(module: str) -> dict[str, str]:
    """Return the first docstring line of each public function of a module, without importing it."""
    source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
    return dict(re.findall(r'^def ([a-z]\w*)\(.*?"""(.*?)(?:"""|\n)', source, re.DOTALL | re.MULTILINE))


class _Commands(TyperGroup):
    """The commands of the program. A suggestion for an unknown one must be close: `remove` is not `restore`."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name = arguments[0]
        if name not in self.commands and not name.startswith("-"):
            context.fail(f"No such command {name!r}.{did_you_mean(name, self.commands, 0.75)}")
        return super().resolve_command(context, arguments)


class _Listed(TyperCommand):
    """A command in the list of `--help`. Its module, which may take a second to import, is imported only to run it."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return command(str(self.name)).make_context(*arguments, **options)


def repeat_options(arguments: list[str]) -> list[str]:
    """Repeat an option that takes several values before each value: --text a b becomes --text a --text b.

    Options before the argument of the command are left as they are, or the argument would be read as a value.
    """
    words: list[str] = []
    option = None
    for argument in arguments:
        if argument.startswith("--"):
            option = argument if argument in REPEATED else None
        elif option and words[-1] != option and len(words) > 1 and not words[1].startswith("--"):
            words.append(option)
        words.append(argument)
    return words


@contextmanager
def errors_as_of_python() -> Iterator[None]:
    """Rewrite command-line options in the errors of commands as Python arguments: --label 'x' becomes label='x'."""
    try:
        yield
    except ValueError as error:
        words = re.sub(r"--no-(\w+)", r"\1=False", str(error))
        words = re.sub(r"--(contains|header|paragraphs|multiclass)\b", r"\1=True", words)
        words = re.sub(r"--([a-z-]+) (?=')", r"\1=", words)
        raise ValueError(re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), words)) from None


def call(command: str, **arguments: Any) -> None:
    """Run a command with these options; the others have their defaults. Raise ValueError if an option is unknown."""
    function = load(command)
    parameters = inspect.signature(function).parameters
    if wrong := arguments.keys() - parameters.keys():
        has = ", ".join(parameters)
        raise ValueError(f"{command} has no argument {min(wrong)}. It has {has}.{did_you_mean(min(wrong), parameters)}")
    for name, each in arguments.items():
        if isinstance(each, str) and "list[str]" in str(parameters[name].annotation):
            arguments[name] = [each]
    with errors_as_of_python():
        function(**{name: each.default for name, each in parameters.items()} | arguments)


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """Exit with one sentence instead of a traceback, and code 1, on ValueError or OSError. Ignore BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:  # the reader has stopped, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (ValueError, OSError) as error:
        file, reason = getattr(error, "filename", None), getattr(error, "strerror", None)
        print(f"error: {file} cannot be opened: {reason}." if file else f"error: {error}", file=sys.stderr)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"oal {__version__}")
        raise typer.Exit


def _own_options(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version, and end.")
    ] = False,
) -> None:
    """Declare the options of the program itself, which precede a command."""


def _parser(function: Callable[..., None], name: str | None = None) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(name)(function)
    return typer.main.get_command(app)


def main(*options: Any) -> None:
    """Run the command line. options: further options of the program, such as the ones for shell completion."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more would only start: no product of matrices is large
    app = _Commands(
        help="OAL Studio: label rare classes under a budget, and compare the algorithms that choose what to ask.",
        commands={
            name: _Listed(name, help=_summaries(module)[_function_name(name)]) for name, module in MODULES.items()
        },
        params=[*_parser(_own_options).params, *options],
        no_args_is_help=True,
    )
    with errors_as_sentences():
        app(repeat_options(sys.argv[1:]))


def oal() -> None:
    """Run the command line as the program oal, with shell completion."""
    main(*get_install_completion_arguments())
