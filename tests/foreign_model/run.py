#!/usr/bin/env python3
"""A server that nobody here wrote (llama.cpp's, through llama-cpp-python) drives whole trajectories.

    run.py PTXBENCH      with the interpreter that has llama-cpp-python and gguf (make foreign-model)

Starts the server with a tiny random model, runs an experiment of two trajectories of three turns, streamed and in one
piece, and looks at the records: every turn answered by the server, tokens counted, no failure of the machine. Ends with a
line "N passed, N failed".
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TURNS, MOST_TOKENS = 3, 40


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(url, server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit(f"the server ended with {server.returncode}")
        try:
            return urllib.request.urlopen(url, timeout=2).read()
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the server does not answer")


def experiment(port):
    return f"""
name = "foreign"
problems = [{{ definition = "gemm_n7168_k5120", axes = {{ M = 64 }} }}]
turns = {TURNS}
stop = "never"
[models.streamed]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "random"
key_variable = ""
max_tokens = {MOST_TOKENS}
temperature = 1.0
options = {{ seed = 7 }}
[models.whole]
provider = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "random"
key_variable = ""
max_tokens = {MOST_TOKENS}
stream = false
"""


def main(program):
    results = []

    def check(what, good, detail=""):
        results.append(good)
        print(("ok     " if good else "FAILED ") + what + ("" if good else f": {detail}"))

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "tiny.gguf"
        subprocess.run([sys.executable, str(HERE / "make_model.py"), str(model)], check=True)
        port = free_port()
        with open(folder / "server.log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
                 "--n_ctx", "32768", "--chat_format", "chatml", "--n_threads", "2"], stdout=log, stderr=log)
        try:
            wait_for(f"http://127.0.0.1:{port}/v1/models", server)
            toml = folder / "experiment.toml"
            toml.write_text(experiment(port), encoding="utf-8")
            run = subprocess.run([program, "run", str(toml), "--out", str(folder / "out")], capture_output=True, text=True,
                                 timeout=600, check=False)
        finally:
            server.terminate()
            server.wait()
        check("the experiment ends", run.returncode == 0, run.stdout[-500:] + run.stderr[-2000:])
        records = sorted((folder / "out" / "trajectories").glob("*.jsonl"))
        check("two trajectories", len(records) == 2, str(records))
        for file in records:
            lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            answers = [line for line in lines if line.get("record") == "answer"]
            turns = [line for line in lines if line.get("record") == "turn"]
            check(f"{file.stem}: {TURNS} answers and turns", len(answers) == TURNS == len(turns), [line.get("record") for line in lines])
            usage = [answer.get("usage") or {} for answer in answers]
            # This server tells them with whole replies only.
            if lines[0]["settings"]["model_name"] == "whole":
                check(f"{file.stem}: tokens counted", all((one.get("prompt_tokens") or 0) > 1000 for one in usage)
                      and all(1 <= (one.get("completion_tokens") or 0) <= MOST_TOKENS for one in usage), usage)
            check(f"{file.stem}: answers have an end", all(answer.get("finish_reason") in ("length", "stop") for answer in answers),
                  [answer.get("finish_reason") for answer in answers])
            check(f"{file.stem}: noise is no candidate", all(turn.get("event") == "no_code" for turn in turns), [turn.get("event") for turn in turns])
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


sys.exit(main(os.path.abspath(sys.argv[1])))
