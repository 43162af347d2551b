#!/usr/bin/env python3
"""Writes files as C++ string constants: embed.py OUTPUT.cpp HEADER NAMESPACE name=FILE...

Each name becomes `std::string NAMESPACE::name()`. The text is cut into pieces, as compilers limit literals."""
import pathlib
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


def main(output, header, namespace, *entries):
    text = [f'#include "{header}"', "", f"namespace {namespace} {{", ""]
    for entry in entries:
        name, _, path = entry.partition("=")
        content = pathlib.Path(path).read_bytes()
        pieces = [content[i:i + PIECE] for i in range(0, len(content), PIECE)]
        text.append(f"std::string {name}() {{\n  std::string text;\n  text.reserve({len(content)});")
        text += [f"  text.append({literal(piece)}, {len(piece)});" for piece in pieces]
        text.append("  return text;\n}\n")
    text.append(f"}}  // namespace {namespace}\n")
    pathlib.Path(output).write_text("\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
