"""Drives a headless Chromium through its DevTools protocol over two pipes: nothing but Python's standard library."""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


def find_chromium():
    """$PTXBENCH_CHROMIUM ("none": no browser), else one that is installed."""
    given = os.environ.get("PTXBENCH_CHROMIUM")
    if given == "none":
        return None
    return given or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page in one browser."""

    def __init__(self, chromium, width=1360, height=900):
        self.profile = tempfile.TemporaryDirectory(prefix="ptxbench-browser", ignore_cleanup_errors=True)
        to_browser, self.writer = os.pipe()
        self.reader, from_browser = os.pipe()
        command = [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                   "--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                   "--force-color-profile=srgb", f"--window-size={width},{height}", f"--user-data-dir={self.profile.name}",
                   "--remote-debugging-pipe", "about:blank"]
        os.set_inheritable(to_browser, True)
        os.set_inheritable(from_browser, True)

        def as_pipes():
            # The protocol's pipes are descriptors 3 and 4. Copies first: either may be one of these already.
            a, b = os.dup(to_browser), os.dup(from_browser)
            a, b = os.dup2(a, 60), os.dup2(b, 61)
            os.dup2(60, 3)
            os.dup2(61, 4)

        self.process = subprocess.Popen(command, preexec_fn=as_pipes, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        # Processor time, not the clock's: tests share the machine.
        self.call("Performance.enable", timeDomain="threadTicks")
        self.size(width, height)

    def task_ms(self):
        """Milliseconds of processor time that the page's main thread has worked."""
        return 1000 * next(one["value"] for one in self.call("Performance.getMetrics")["metrics"] if one["name"] == "TaskDuration")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.writer)
        os.close(self.reader)
        self.profile.cleanup()

    def receive(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.reader, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has gone")
            self.buffer += chunk
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writer, data):]
        while True:
            reply = self.receive()
            if reply.get("id") == message["id"]:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            if "method" in reply:
                self.events.append(reply)

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'yes'", 30)

    def run(self, script):
        """The value of an expression, which may be a promise."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return reply["result"].get("value")

    def wait(self, condition, seconds=10):
        end = time.monotonic() + seconds
        while not self.run(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"not so after {seconds} s: {condition}; {self.problems()}")
            self.run("new Promise(done => setTimeout(done, 20))")

    def settle(self):
        """Until everything that was put off is drawn."""
        self.run("new Promise(done => { let idle = 0; const step = () => { idle = window.ptxbenchTimings?.pending ? 0 : idle + 1; "
                 "if (idle > 5) done(); else requestIdleCallback(() => requestAnimationFrame(step), {timeout: 200}); }; step(); })")

    def key(self, key, modifiers=0):
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "End": 35, "Home": 36}
        text = {"Enter": "\r", " ": " "}.get(key)
        shared = dict(key=key, code="Space" if key == " " else key, windowsVirtualKeyCode=codes[key], modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **({"text": text} if text else {}), **shared)
        self.call("Input.dispatchKeyEvent", type="keyUp", **shared)

    def problems(self):
        """Errors, refused scripts and requests that left the page."""
        self.run("0")
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                details = parameters["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details["text"])
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] == "error":
                found.append(str(parameters["args"]))
        return found

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, selector=None, whole=False):
        options = {"format": "png"}
        if selector:
            box = self.run(f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                           " return {x: b.x + scrollX, y: b.y + scrollY, width: b.width, height: b.height}; })()")
            options["clip"] = {**box, "scale": 1}
            options["captureBeyondViewport"] = True
        elif whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            options["captureBeyondViewport"] = True
        data = base64.b64decode(self.call("Page.captureScreenshot", **options)["data"])
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
