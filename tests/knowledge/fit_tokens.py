#!/usr/bin/env python3
"""Exact token counts of files with a real vocabulary, beside the estimate of `ptxbench knowledge`.

    fit_tokens.py VOCABULARY.tiktoken PTXBENCH FILE...

VOCABULARY is a file of lines "BASE64 RANK", as some Python wheels of model vendors carry one. Nothing of it is stored
here: the weights of src/knowledge/tokens.cpp were chosen so that the last column stays near 1.
"""
import base64
import re
import subprocess
import sys

# Words with one character before them, single digits, punctuation, line ends, blanks: the split most vocabularies use.
PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def load(path):
    ranks = {}
    for line in open(path, "rb"):
        word, rank = line.split()
        ranks[base64.b64decode(word)] = int(rank)
    return ranks


def count(piece, ranks, memory):
    if piece in memory:
        return memory[piece]
    parts = [bytes([b]) for b in piece]
    while len(parts) > 1:
        best = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], 1 << 60))
        if parts[best] + parts[best + 1] not in ranks:
            break
        parts[best:best + 2] = [parts[best] + parts[best + 1]]
    memory[piece] = len(parts)
    return len(parts)


def main():
    ranks, memory = load(sys.argv[1]), {}
    total = estimated = 0
    for path in sys.argv[3:]:
        text = open(path).read()
        exact = sum(count(piece.encode(), ranks, memory) for piece in PIECES.findall(text))
        estimate = int(subprocess.run([sys.argv[2], "knowledge", "tokens", "--file", path], check=True,
                                      capture_output=True, text=True).stdout.split()[0])
        print(f"{exact:8d} {estimate:8d} {estimate / max(exact, 1):6.3f}  {path}")
        total, estimated = total + exact, estimated + estimate
    print(f"{total:8d} {estimated:8d} {estimated / max(total, 1):6.3f}  total")


if __name__ == "__main__":
    main()
