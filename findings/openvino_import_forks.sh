#!/usr/bin/env bash
# Importing openvino forks the process, from a thread of its telemetry's: beside JAX's threads that can deadlock.
# OpenVINO 2026.4.1, openvino-telemetry 2025.2.0, on Linux, outside CI: one fork; none where openvino_telemetry can't
# be imported, which openvino does without.
env -u CI "$(dirname "$0")/in_venv" openvino==2026.4.1 openvino-telemetry==2025.2.0 << 'EOF'
import subprocess
import sys

PROGRAM = """
import os, sys, time
os.register_at_fork(before=lambda: print("fork", flush=True))
{}
import openvino
time.sleep(5)
"""
WITHOUT = "sys.modules['openvino_telemetry'] = None"
forks = [subprocess.run([sys.executable, "-c", PROGRAM.format(first)], capture_output=True, text=True).stdout.count("fork")
         for first in ("", WITHOUT)]
print("forks at import:", forks[0], "without telemetry:", forks[1])
assert forks == [1, 0]
EOF
