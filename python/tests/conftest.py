"""Set-up of all tests."""

from __future__ import annotations

import signal

# A shell starts programs in the background with interrupts ignored, and Python keeps that. Tests
# interrupt calls, and programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
