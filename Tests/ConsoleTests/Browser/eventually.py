"""Waits for what a page shows: it is drawn some time after an event, so no test checks it only once."""

import json


class Eventually:
    """Mixin for test cases with a `browser`."""

    def expect(self, words, selector="main"):
        """Waits until the first element of a selector contains a text."""
        self.browser.wait(
            "document.querySelector(arguments[1])?.innerText.includes(arguments[0])",
            words,
            selector,
            what=f"{words!r} in {selector}",
        )

    def becomes(self, expression, value):
        """Waits until an expression of the page has a value."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        equal = f"JSON.stringify({expression}) === wanted"
        # The element may not exist yet.
        script = f"((wanted) => {{ try {{ return {equal} }} catch {{}} }})(arguments[0])"
        self.browser.wait(script, text, what=f"{expression} is {text}")
