"""Processes of torch.distributed, started as torchrun does: they find one another, and a failure is a failure."""

import subprocess
import sys

import pytest

PROGRAM = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
x = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(x)
if dist.get_rank() == 1:
    print(dist.get_world_size(), x.item())
dist.destroy_process_group()
"""


@pytest.mark.full
def test_two_ranks_meet_and_a_failure_is_told(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM, encoding="utf-8")
    command = [sys.executable, "-m", "attnlab_course.lessons.lesson21.processes", "2", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, ["2", "3.0"]), done.stderr
    file.write_text("import os\nassert os.environ['RANK'] == '0'", encoding="utf-8")
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 1
