"""Options that many commands have, and options of which a function makes one value that a command takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from treadle.config.trust import TRUST_OPTION

TrustOption = Annotated[
    bool,
    typer.Option(
        TRUST_OPTION,
        help="Run Python code that a recording, a scenario or a sweep names: only for files whose author you trust.",
    ),
]

Command = Callable[..., None]


def with_options(**makers: Callable[..., Any]) -> Callable[[Command], Command]:
    """Give a command the options of functions; each parameter named here gets what its function returns.

    The options stand where the parameter does. Typer reads them from the signature and the annotations.
    """

    def decorate(command: Command) -> Command:
        options: list[Parameter] = []
        of_maker: dict[str, list[str]] = {}
        for each in _parameters(command, makers):
            found = [each]
            if each.name in makers:
                found = _parameters(makers[each.name], ("return",))
                of_maker[each.name] = [option.name for option in found]
            options += [option.replace(kind=Parameter.KEYWORD_ONLY) for option in found]

        def run(**given: Any) -> None:
            made = {
                name: makers[name](**{option: given.pop(option) for option in names})
                for name, names in of_maker.items()
            }
            command(**given, **made)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {each.name: each.annotation for each in options}
        run.__signature__ = Signature(options)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(function: Callable[..., Any], made: Iterable[str]) -> list[Parameter]:
    """Return a function's parameters; types of what is ``made`` are left out: they may be there for mypy alone."""
    for name in made:
        function.__annotations__.pop(name, None)
    return list(signature(function, eval_str=True).parameters.values())
