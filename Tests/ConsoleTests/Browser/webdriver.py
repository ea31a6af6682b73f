"""Controls a browser through W3C WebDriver (JSON over HTTP) with chromedriver, using only the standard library."""

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {
    "Enter": "\ue007",
    "Escape": "\ue00c",
    "Tab": "\ue004",
    "Backspace": "\ue003",
    "ArrowDown": "\ue015",
    "End": "\ue010",
    "Home": "\ue011",
}
# Generous, because machines that run all tests in parallel can be slow; no test is about speed.
PATIENCE_SECONDS = int(os.environ.get("APUS_BROWSER_PATIENCE", "60"))

# Evaluates an expression until it is true, for at most half a second: a call for each evaluation would cost more
# processor time than the page. At the end of a document, timers and so the script end without a result.
LOOK = """
  const look = () => (EXPRESSION)
  const end = performance.now() + 500
  return look() || new Promise((done, fail) => {
    const again = () => {
      try {
        const value = look()
        if (value || performance.now() > end) done(value)
        else setTimeout(again, 10)
      } catch (error) {
        fail(error)
      }
    }
    setTimeout(again, 10)
  })"""


class WebDriverError(Exception):
    pass


def start_driver(program, attempts=100):
    """Starts chromedriver and returns its process and its port.

    It chooses a free IPv6 port and exits if the same IPv4 port is in use, which any connection of another test can
    cause. In that case, start it again with another port.
    """
    for _ in range(attempts):
        # Errors go to a file: a pipe would not be read while it runs, and when full would block it.
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen([program, "--port=0"], stdout=subprocess.PIPE, stderr=errors, text=True)
            lines = []
            for line in process.stdout:
                if found := re.search(r"started successfully on port (\d+)", line):
                    return process, int(found.group(1))
                lines.append(line.strip())
            process.wait()
            process.stdout.close()
            errors.seek(0)
            lines += errors.read().splitlines()
        if not any("port not available" in line for line in lines):
            break
    raise WebDriverError(f"chromedriver did not start: {'; '.join(lines)} (exit code {process.returncode})")


class Browser:
    """Chromium, or only the part of it that shows pages (`SHELL`), which takes two thirds of the processor time. There,
    no page is hidden by another tab."""

    # Debian's command of that name is a script, and leaves the browser running when it is killed.
    SHELL = "/usr/lib/chromium/chromium-headless-shell"

    def __init__(self, width=1280, height=800, dark=False, program="chromium"):
        driver, chromium = shutil.which("chromedriver"), shutil.which(program)
        if not driver or not chromium:
            raise WebDriverError(f"{program} or chromedriver is missing: run scripts/setup.sh test")
        self.session = ""
        self.process, port = start_driver(driver)
        self.base = f"http://127.0.0.1:{port}"
        # The rest of its output is not read. It is too little to fill the pipe.
        flags = ["--headless", "--disable-gpu", "--disable-dev-shm-usage", f"--window-size={width},{height}"]
        if os.geteuid() == 0:
            flags.append("--no-sandbox")  # Chromium refuses to run as root with it.
        options = {"binary": chromium, "args": flags}
        capabilities = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"
        self.size(width, height)
        self.appearance(dark)

    def close(self):
        try:
            if self.session:
                self.call("DELETE", "")
        except (WebDriverError, OSError):
            pass  # It has ended already.
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE_SECONDS) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise WebDriverError(json.load(error)["value"]["message"].splitlines()[0]) from None

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height):
        """Sets the size of the page, which may be smaller than the minimum size of a window."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def appearance(self, dark):
        value = "dark" if dark else "light"
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": value}])

    def open(self, address):
        self.call("POST", "/url", {"url": address})

    def open_tab(self):
        """Opens a tab in front of the others; returns its handle for `switch`."""
        return self.call("POST", "/window/new", {"type": "tab"})["handle"]

    def tab(self):
        return self.call("GET", "/window")

    def switch(self, tab):
        self.call("POST", "/window", {"handle": tab})

    def close_tab(self):
        self.call("DELETE", "/window")

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """Runs a script that calls its last argument with the result."""
        return self.call("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def wait(self, script, *arguments, what=None):
        """Waits until an expression is true on the page, and returns its value."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                value = self.run(LOOK.replace("EXPRESSION", script), *arguments)
            except WebDriverError as error:
                # Another document has been loaded meanwhile.
                if not any(word in str(error) for word in ("document unloaded", "aborted by navigation")):
                    raise
                value = None
            if value:
                return value
            if time.monotonic() > end:
                text = self.run("return document.body.innerText")
                raise WebDriverError(f"timeout: {what or script} {arguments}\n--- text of the page ---\n{text[:3000]}")

    def element(self, selector, text=None):
        """Waits for the first visible element of a selector; with `text`, whose label or content contains the text."""
        script = """[...document.querySelectorAll(arguments[0])].find((one) => one.checkVisibility() && (
          arguments[1] == null
          || one.textContent.includes(arguments[1]) || (one.getAttribute('aria-label') ?? '').includes(arguments[1])
          || [...(one.labels ?? [])].some((label) => label.textContent.includes(arguments[1]))))"""
        return self.wait(script, selector, text, what=f"{selector} {text or ''}")[ELEMENT]

    def with_element(self, selector, text, act):
        """Calls `act` with an element. If the page is redrawn in between, which removes or moves the element, finds it
        again, as a person would."""
        for attempt in range(20):
            try:
                return act(self.element(selector, text))
            except WebDriverError as error:
                if attempt == 19 or not any(word in str(error) for word in ("stale", "click intercepted")):
                    raise

    def click(self, selector, text=None):
        return self.with_element(selector, text, lambda element: self.call("POST", f"/element/{element}/click", {}))

    def type(self, selector, value, text=None):
        # Select and overwrite, as a person would. WebDriver's `clear` would cause a separate change event.
        def write(element):
            self.run("arguments[0].focus(); arguments[0].select()", {ELEMENT: element})
            self.call("POST", f"/element/{element}/value", {"text": value or KEYS["Backspace"]})

        self.with_element(selector, text, write)

    def choose(self, selector, value, text=None):
        """Chooses an option by its value, or replaces the text of a field at once."""
        script = """arguments[0].value = arguments[1];
          for (const name of ['input', 'change']) arguments[0].dispatchEvent(new Event(name, { bubbles: true }))"""
        self.with_element(selector, text, lambda element: self.run(script, {ELEMENT: element}, value))

    def press(self, *keys):
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def accept(self):
        """Accepts the confirmation dialog of the page."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self.call("POST", "/alert/accept", {})
            except WebDriverError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)

    def text(self, selector="body"):
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def complaints(self):
        """New messages in the browser's console: errors, and what the policy blocked."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))
