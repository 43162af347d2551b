#!/usr/bin/env python3
"""A server that nobody here wrote drives whole trajectories.

    run.py PTXBENCH llama|proxy      with the interpreter that has the server (scripts/foreign_model.sh)

`llama`: llama.cpp's server through llama-cpp-python, with a tiny random model: its answers are noise. `proxy`: LiteLLM's
proxy, which speaks chat completions, OpenAI's responses and Anthropic's messages, and answers with a kernel that works.
Runs an experiment, streamed and in one piece, and looks at the records. Ends with a line "N passed, N failed".
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
KERNEL = HERE.parents[1] / "examples/kernels/gemm_mma_cp_async.cu"
TURNS, MOST_TOKENS = 2, 4000


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def llama(folder, port):
    model = folder / "tiny.gguf"
    subprocess.run([sys.executable, str(HERE / "make_model.py"), str(model)], check=True)
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1", "--port", str(port),
               "--n_ctx", "32768", "--chat_format", "chatml", "--n_threads", "2"]
    return command, "/v1/models", {"streamed": ("openai", "stream = true"), "whole": ("openai", "stream = false")}


def proxy(folder, port):
    answer = "Here is a kernel.\n```cpp\n" + KERNEL.read_text(encoding="utf-8") + "```\n"
    config = folder / "proxy.yaml"  # JSON is YAML
    config.write_text(json.dumps({"model_list": [{"model_name": "random", "litellm_params": {
        "model": "openai/mock", "api_key": "none", "mock_response": answer}}]}), encoding="utf-8")
    command = [str(pathlib.Path(sys.executable).parent / "litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
    return command, "/health/liveliness", {
        "chat-streamed": ("openai", "stream = true"), "chat-whole": ("openai", "stream = false"),
        "messages-streamed": ("anthropic", "stream = true"), "messages-whole": ("anthropic", "stream = false")}


def wait_for(url, server):
    for _ in range(1200):
        if server.poll() is not None:
            return f"the server ended with {server.returncode}"
        try:
            urllib.request.urlopen(url, timeout=2).read()
            return None
        except OSError:
            time.sleep(0.1)
    return "the server does not answer"


def experiment(port, models):
    text = f"""
name = "foreign"
problems = [{{ definition = "gemm_n7168_k5120", axes = {{ M = 16 }} }}]
turns = {TURNS}
stop = "never"
"""
    for name, (provider, more) in models.items():
        base = f"http://127.0.0.1:{port}/v1"
        text += f"""
[models.{name}]
provider = "{provider}"
base_url = "{base}"
model = "random"
key_variable = ""
max_tokens = {MOST_TOKENS if provider == "anthropic" else 40}
{more}
"""
    return text


def main(program, kind):
    results = []

    def check(what, good, detail=""):
        results.append(bool(good))
        print(("ok     " if good else "FAILED ") + what + ("" if good else f": {detail}"))

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        port = free_port()
        command, ready, models = {"llama": llama, "proxy": proxy}[kind](folder, port)
        environment = dict(os.environ, LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY="true")
        with open(folder / "server.log", "w", encoding="utf-8") as log:
            server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            problem = wait_for(f"http://127.0.0.1:{port}{ready}", server)
            check("the server is up", problem is None, f"{problem}\n" + (folder / "server.log").read_text(encoding="utf-8")[-2000:])
            toml = folder / "experiment.toml"
            toml.write_text(experiment(port, models), encoding="utf-8")
            run = subprocess.run([program, "run", str(toml), "--out", str(folder / "out")], capture_output=True, text=True,
                                 timeout=900, check=False)
        finally:
            server.terminate()
            server.wait()
        check("the experiment ends", run.returncode == 0, run.stdout[-500:] + run.stderr[-2000:])
        records = sorted((folder / "out" / "trajectories").glob("*.jsonl"))
        check(f"{len(models)} trajectories", len(records) == len(models), str(records))
        for file in records:
            lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            name = lines[0]["settings"]["model_name"]
            answers = [line for line in lines if line["record"] == "answer"]
            turns = [line for line in lines if line["record"] == "turn"]
            check(f"{name}: {TURNS} answers and turns", len(answers) == TURNS == len(turns), [line["record"] for line in lines])
            if name.endswith("whole"):  # with streams, these servers need not tell them
                usage = [answer.get("usage") or {} for answer in answers]
                check(f"{name}: tokens counted", all((one.get("prompt_tokens") or 0) > 0 and (one.get("completion_tokens") or 0) > 0
                                                     for one in usage), usage)
            events = [turn.get("event") for turn in turns]
            if kind == "llama":
                check(f"{name}: noise is no candidate", all(event == "no_code" for event in events), events)
            else:
                verdicts = [turn["evaluation"]["verdict"]["status"] if turn.get("evaluation") else None for turn in turns]
                check(f"{name}: the kernel passes", all(verdict == "passed" for verdict in verdicts), verdicts)
                check(f"{name}: the answer is whole", all(KERNEL.read_text(encoding="utf-8").strip() in answer["answer"] for answer in answers))
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    return 0 if all(results) else 1


sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2]))
