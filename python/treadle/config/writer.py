"""The text of a treadle.yaml that says every default and its meaning: conf/treadle.yaml is what this writes."""

from __future__ import annotations

from textwrap import wrap

import yaml

from treadle.config.parts import DEFAULTS, PARTS, QUESTIONS, Kind, Parameters, PartRegistry
from treadle.config.settings import SECTIONS

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
    for section, model in SECTIONS.items():
        lines += ["", *_comment((model.__doc__ or "").partition("\n")[0]), f"{section}:", *_fields(model, "  ")]
    lines += [
        "",
        *_comment("Of whatever is drawn at random: equal seeds and equal events give equal proposals."),
        "seed: 0",
    ]
    return "\n".join(lines) + "\n"


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
        lines += _comment(field.description or "", indent)
        value = yaml.safe_dump(field.get_default(call_default_factory=True), default_flow_style=True)
        lines.append(f"{indent}{name}: {value.removesuffix(chr(10)).removesuffix(chr(10) + '...')}")
    return lines


def _comment(text: str, indent: str = "") -> list[str]:
    return [f"{indent}# {line}" for line in wrap(text, _WIDTH - len(indent))]
