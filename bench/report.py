#!/usr/bin/env python3
"""Measures reports: results of the published size and shape (13,674 turns) to a finished page, experiments of ours to a page, how
little a running experiment's page reads again, and, with a browser, how long the page takes to open and to filter.

Usage: bench/report.py [--build build] [--data FOLDER] [--json FILE]
Needs the targets ptxbench and report_synthetic. Without FOLDER the results are made up."""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "report"))


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def timed(command, times):
    """Best and median seconds by the clock, and the least processor time."""
    walls, works = [], []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        walls.append(time.monotonic() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        works.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {"best_s": round(min(walls), 3), "median_s": round(sorted(walls)[times // 2], 3), "processor_s": round(min(works), 3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    program, synthetic = options.build / "ptxbench", options.build / "report_synthetic"
    result = {"date": datetime.date.today().isoformat(), "machine": f"{processor()}, {os.cpu_count()} cores", "load_before": round(os.getloadavg()[0], 1),
              "commit": subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()}
    with tempfile.TemporaryDirectory() as name:
        at = pathlib.Path(name)
        data = options.data
        if not data:
            data = at / "published"
            subprocess.run([synthetic, "published", data, "runs=105", "trajectories=16"], check=True)
        turns = sum(1 for _ in open(data / "reasoning_tokens_vs_performance.csv")) - 1
        result["published"] = {"source": "given" if options.data else "made up", "turns": turns,
                               "page": timed([program, "report", data, "--html", at / "page.html"], 7), "page_bytes": (at / "page.html").stat().st_size,
                               "tables": timed([program, "report", data], 5)}
        run = at / "run"
        subprocess.run([synthetic, "experiment", run, "runs=8", "trajectories=214", "lines=60"], check=True)
        size = sum(file.stat().st_size for file in (run / "trajectories").iterdir())
        result["experiment"] = {"turns": 8 * 214 * 8, "trajectories": 8 * 214, "record_bytes": size,
                                "tables": timed([program, "report", run], 3), "page": timed([program, "report", run, "--html", at / "own.html"], 3),
                                "page_bytes": (at / "own.html").stat().st_size}
        try:
            from browser import Browser, find_chromium
            chromium = find_chromium()
        except ImportError:
            chromium = None
        if chromium:
            browser = Browser(chromium)
            # From the start of the navigation by the page's own clock, from an empty page each time; beside it, what a page of one word
            # takes in the same browser. Shown: title, key figures and filters, which answer. Drawn: the charts on screen too. Frame: the main
            # thread has made the frame with them. Painted: the browser says that it was first presented.
            (at / "word.html").write_text("<!doctype html><p>word</p><script>window.ptxbenchTimings = {shown: performance.now(), ready: performance.now()};"
                                             "requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = () => { ptxbenchTimings.frame = performance.now(); }; c.port2.postMessage(0); })</script>")

            def opened(name):
                browser.call("Page.navigate", url="about:blank")
                browser.run("new Promise(done => setTimeout(done, 300))")
                browser.call("Page.navigate", url=f"file://{at / name}")
                time.sleep(0.7)
                return browser.run("({...window.ptxbenchTimings, painted: performance.getEntriesByName('first-contentful-paint')[0].startTime})")

            def summary(values):
                return {"best": round(min(values)), "median": round(sorted(values)[len(values) // 2]), "worst": round(max(values))}
            first = opened("page.html")
            pages, words = [], []
            for _ in range(15):
                pages.append(opened("page.html"))
                words.append(opened("word.html"))
            names = {"shown": "shown", "drawn": "ready", "frame": "frame", "painted": "painted"}
            opening = {"first_in_a_new_browser": {name: round(first[key]) for name, key in names.items()},
                       "page": {name: summary([one[key] for one in pages]) for name, key in names.items()},
                       "page_of_one_word": {name: summary([one[key] for one in words]) for name, key in names.items()}}
            browser.open(f"file://{at / 'page.html'}")
            handlers = {}
            for section in ("fast", "board", "multiples", "pair", "classes", "next", "reasoning", "costs", "list"):
                browser.run(f"document.querySelector('#{section}').scrollIntoView({{behavior: 'instant'}}); document.querySelector('#filter-model').open = true")
                browser.settle()
                taken = []
                for _ in range(15):
                    # The click's handler, and until the frame after it is there.
                    taken.append(browser.run("(async () => { const boxes = document.querySelectorAll('#filter-model input[type=checkbox]'), start = performance.now();"
                                             " boxes[window.n = ((window.n || 0) + 1) % 5].click(); const worked = performance.now() - start;"
                                             " await new Promise(done => requestAnimationFrame(() => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0); }));"
                                             " return [worked, performance.now() - start]; })()"))
                    browser.settle()
                handlers[section] = {"handler_ms": summary([one[0] for one in taken]), "until_frame_ms": summary([one[1] for one in taken])}
            result["browser"] = {"version": browser.call("Browser.getVersion")["product"], "page_opens_ms": opening,
                                 "filter_by_section_on_screen": handlers}
            browser.close()
    result["load_after"] = round(os.getloadavg()[0], 1)
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if options.json:
        options.json.write_text(text)


if __name__ == "__main__":
    main()
