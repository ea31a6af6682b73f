#!/usr/bin/env python3
"""Tests of the page in a browser, against the mock service: all, a part, or some.

    run.py [inbox | views | service | inbox_tests.Inbox.test_live ...]
"""

import sys
import unittest

# Parts of about the same duration.
PARTS = {
    "inbox": ["webdriver_tests", "inbox_tests", "push_tests"],
    "views": ["view_tests", "activity_tests", "zone_tests", "session_tests"],
    "service": ["admin_tests"],
}

if __name__ == "__main__":
    names = sys.argv[1:] or list(PARTS)
    chosen = [test for name in names for test in PARTS.get(name, [name])]
    unittest.main(module=None, argv=[sys.argv[0], "--verbose", *chosen])
