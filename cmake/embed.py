#!/usr/bin/env python3
"""Writes files as C++ string constants: embed.py OUTPUT.cpp HEADER NAMESPACE name=FILE...

Each name becomes `std::string NAMESPACE::name()`. The text is cut into pieces, as compilers limit literals. Scripts, style
sheets and pages are embedded in ASCII, other characters as the language's escapes: browsers read that in a fraction of
the time, as they need one byte for each character and nothing to decode."""
import pathlib
import re
import sys

PIECE = 16000


def literal(piece):
    out = []
    for byte in piece:
        if byte == 10:
            out.append("\\n")
        elif byte in (34, 92):
            out.append("\\" + chr(byte))
        elif 32 <= byte < 127 and byte != 63:  # no trigraphs
            out.append(chr(byte))
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def script_escape(character):
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


ESCAPES = {".js": script_escape, ".css": lambda character: f"\\{ord(character):x} ", ".html": lambda character: f"&#x{ord(character):x};"}


def content_of(path):
    content, escape = path.read_bytes(), ESCAPES.get(path.suffix)
    return re.sub(r"[^\x00-\x7f]", lambda match: escape(match.group()), content.decode()).encode() if escape else content


def main(output, header, namespace, *entries):
    text = [f'#include "{header}"', "", f"namespace {namespace} {{", ""]
    for entry in entries:
        name, _, path = entry.partition("=")
        content = content_of(pathlib.Path(path))
        pieces = [content[i:i + PIECE] for i in range(0, len(content), PIECE)]
        text.append(f"std::string {name}() {{\n  std::string text;\n  text.reserve({len(content)});")
        text += [f"  text.append({literal(piece)}, {len(piece)});" for piece in pieces]
        text.append("  return text;\n}\n")
    text.append(f"}}  // namespace {namespace}\n")
    pathlib.Path(output).write_text("\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
