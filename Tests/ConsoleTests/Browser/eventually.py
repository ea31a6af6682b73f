"""What a page comes to say: it is drawn some time after it hears of something, so no test looks at one moment of it."""

import json


class Eventually:
    """For tests that have a `browser`."""

    def expect(self, words, selector="main"):
        """Waits until the first element of a selector says something."""
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
        # What it is read from may not be there yet.
        script = f"((wanted) => {{ try {{ return {equal} }} catch {{}} }})(arguments[0])"
        self.browser.wait(script, text, what=f"{expression} is {text}")
