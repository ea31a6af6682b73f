#!/usr/bin/env python3
"""Tests of the page in a browser, against the mock service. `run.py inbox_tests.Inbox.test_live ...` runs some."""

import sys
import unittest

MODULES = ["webdriver_tests", "inbox_tests", "push_tests", "view_tests", "zone_tests", "session_tests", "admin_tests"]

if __name__ == "__main__":
    unittest.main(module=None, argv=[sys.argv[0], "--verbose", *(sys.argv[1:] or MODULES)])
