#!/usr/bin/env python3
"""Prints "PASSED FAILED SKIPPED" of a JUnit file that ctest wrote.

ctest files a test whose program is missing under "skipped" too; only one that skipped itself is counted as such here.
"""
import sys
import xml.etree.ElementTree

passed = failed = skipped = 0
for case in xml.etree.ElementTree.parse(sys.argv[1]).iter("testcase"):
    status = case.get("status")
    reason = case.find("skipped")
    message = reason.get("message", "") if reason is not None else ""
    if status == "run":
        passed += 1
    elif status == "disabled" or message.startswith("SKIP_"):
        skipped += 1
    else:
        failed += 1
print(passed, failed, skipped)
