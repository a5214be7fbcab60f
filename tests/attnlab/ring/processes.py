"""Ranks for tests: processes that import torch once and stay for many calls. None outlives its test."""

import importlib
import multiprocessing
import os
import tempfile
import time
from datetime import timedelta

from tests.support import needs

PATIENCE = 90  # seconds for a call, on a busy machine


class Ranks:
    """``size`` processes of a gloo group, which gives a silent one up after ``timeout`` seconds."""

    def __init__(self, size, timeout):
        needs("torch")
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed", "torch._dynamo"])  # what takes seconds
        self.folder = tempfile.TemporaryDirectory()
        meeting = os.path.join(self.folder.name, "ranks")
        self.pipes, self.processes = [], []
        for rank in range(size):
            mine, theirs = context.Pipe()
            process = context.Process(target=serve, args=(theirs, rank, size, meeting, timeout), daemon=True)
            process.start()
            theirs.close()  # so that the end of the process is the end of the pipe
            self.pipes.append(mine)
            self.processes.append(process)

    def call(self, function, ranks, *arguments, heard=None):
        """What function(rank, group, *arguments) returns or raises on each of the first ``ranks`` processes.

        ``function``: one of torch_ranks.py. ``heard``: how many of them are waited for, all by default.
        """
        for pipe in self.pipes[:ranks]:
            pipe.send((function, ranks, arguments))
        end = time.monotonic() + PATIENCE
        return [self.result(rank, end) for rank in range(heard or ranks)]

    def result(self, rank, end):
        """Wait for a rank, but not for ever."""
        try:
            if self.pipes[rank].poll(max(end - time.monotonic(), 0)):
                return self.pipes[rank].recv()
        except EOFError as error:
            return error
        return TimeoutError(f"rank {rank} hangs")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """End every process, whatever it does."""
        for process in self.processes:
            process.kill()
            process.join()
        self.folder.cleanup()


def serve(pipe, rank, size, meeting, timeout):
    """The life of a process: a group for every number of ranks, then calls until the pipe closes."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    patience = timedelta(seconds=timeout)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size, timeout=patience)
    groups = {ranks: dist.new_group(range(ranks), timeout=patience) for ranks in range(1, size + 1)}
    module = importlib.import_module("tests.attnlab.ring.torch_ranks")
    while True:
        try:
            function, ranks, arguments = pipe.recv()
        except EOFError:
            return
        try:
            result = getattr(module, function)(rank, groups[ranks], *arguments)
        except Exception as error:
            result = type(error)(str(error))
        pipe.send(result)
