"""Run a program of torch.distributed in several processes of this machine, as torchrun does, and with less to start.

    python -m attnlab_course.lessons.lesson21.processes 4 program.py    # or -m a.module, and its options

torchrun imports PyTorch in each process and in its own. Here one process imports it, and the ranks are forked from it.
"""

import multiprocessing
import os
import runpy
import socket
import sys


def run(rank: int, count: int, port: int, program: list[str]) -> None:
    """Be rank ``rank`` of ``count``: the environment that init_process_group reads, then the program."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    os.environ |= {"MASTER_ADDR": "localhost", **{name: str(value) for name, value in place.items()}}
    module = program[0] == "-m"
    sys.argv = program[module:]
    (runpy.run_module if module else runpy.run_path)(sys.argv[0], run_name="__main__")


def main() -> int:
    """Start the ranks and wait for them; 1 if one of them failed, else 0."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    count = int(sys.argv[1])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attnlab.ring.torch"])
    ranks = [context.Process(target=run, args=(rank, count, port, sys.argv[2:])) for rank in range(count)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return int(any(rank.exitcode for rank in ranks))


if __name__ == "__main__":
    sys.exit(main())
