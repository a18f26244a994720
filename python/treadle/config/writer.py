"""The text of a treadle.yaml that says every default and its meaning: conf/treadle.yaml is what this writes."""

from __future__ import annotations

from textwrap import wrap

import yaml
from pydantic.fields import FieldInfo

from treadle.config.engines import Entry, Retry, Select
from treadle.config.parts import DEFAULTS, PARTS, QUESTIONS, Kind, Parameters, PartRegistry
from treadle.config.settings import IGNORE_PRIORITY, IGNORES_PRIORITY, SECTIONS

_WIDTH = 118


def default_yaml(parts: PartRegistry = PARTS) -> str:
    """Return a treadle.yaml with every setting at its default, and the other kinds of parts with theirs as comments."""
    lines = [
        *_comment(
            "Settings of Treadle's engine, each with its default. A file may leave out whatever it does not change."
        ),
        *_comment("Check one with `treadle policy check FILE`; `yarn rmadmin -refreshQueues` has it read again."),
        "",
        *_comment("How containers are placed: five parts, each of a kind with parameters of its own."),
        "policy:",
    ]
    for part, question in QUESTIONS.items():
        lines += _comment(question, "  ")
        lines.append(f"  {part}:")
        for name, kind in sorted(parts.kinds(part).items(), key=lambda item: (item[0] != DEFAULTS[part], item[0])):
            lines += _kind(kind, chosen=name == DEFAULTS[part])
    lines += [*_comment(IGNORES_PRIORITY, "  "), f"  {IGNORE_PRIORITY}: false"]
    for section, model in SECTIONS.items():
        lines += ["", *_comment((model.__doc__ or "").partition("\n")[0]), f"{section}:", *_fields(model, "  ")]
    lines += ["", *_engines()]
    lines += [
        "",
        *_comment("Of whatever is drawn at random: equal seeds and equal events give equal proposals."),
        "seed: 0",
    ]
    return "\n".join(lines) + "\n"


def _engines() -> list[str]:
    """Return an entry of `engines:` with every default, as a comment: without the section there is one engine."""
    text = (
        "Several engines on one cluster (docs/several-engines.md), in order; the first whose select matches an "
        "application serves it. Names are yours. Sections of this file that stand in an entry are that engine's."
    )
    entry = [
        *_fields(Select, "      "),
        *_comment("Sections of this file, as policy: {order: {kind: srpt}}", "    "),
    ]
    lines = ["engines:", "  service:", "    select:", *entry]
    for name, field in Entry.keys().items():
        if name == "retry":
            lines += [*_comment(field.description or "", "    "), "    retry:", *_fields(Retry, "      ")]
        elif name != "select":
            lines += _field(name, field, "    ")
    lines += [*_comment("The last entry serves all that is left.", "  "), "  batch: {}"]
    return [*_comment(text), *(f"# {line}" for line in lines)]


def _kind(kind: Kind, *, chosen: bool) -> list[str]:
    summary = _comment(kind.summary, "    ") if kind.summary else []
    needed = [name for name, field in kind.parameters.keys().items() if field.is_required()]
    if needed:
        needs = f"Needs {' and '.join(needed)}; see docs/write-a-policy.md."
        return [f"    # or kind: {kind.name}", *_comment(kind.summary, "    #   "), *_comment(needs, "    #   ")]
    fields = _fields(kind.parameters, "    ")
    if chosen:
        return [*summary, f"    kind: {kind.name}", *fields]
    # "or" tells what may stand instead from what is a comment on it.
    return [f"    # or kind: {kind.name}", *(line.replace("    ", "    #   ", 1) for line in summary + fields)]


def _fields(model: type[Parameters], indent: str) -> list[str]:
    lines: list[str] = []
    for name, field in model.keys().items():
        lines += _field(name, field, indent)
    return lines


def _field(name: str, field: FieldInfo, indent: str) -> list[str]:
    default = field.get_default(call_default_factory=True)
    plain = list(default) if isinstance(default, tuple) else default
    value = yaml.safe_dump(plain, default_flow_style=True)
    line = f"{indent}{name}: {value.removesuffix(chr(10)).removesuffix(chr(10) + '...')}"
    return [*_comment(field.description or "", indent), line]


def _comment(text: str, indent: str = "") -> list[str]:
    return [f"{indent}# {line}" for line in wrap(text, _WIDTH - len(indent))]
