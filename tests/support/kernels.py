"""Kernels for nbval, forked from one process that has imported what lessons import: that takes longer than most cells.

    python -m tests.support.kernels FOLDER          forks kernels until its standard input closes
    python kernels.py FOLDER CONNECTION_FILE        what Jupyter starts as a kernel: it asks for one, and ends with it

"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

IMPORTED = "numpy", "matplotlib.figure", "matplotlib.backends.backend_agg", "torch", "jax.numpy", "ipykernel.kernelapp"
"""Nothing of ours, and nothing that starts a thread or asks what it runs in. What isn't installed is left out."""


@contextmanager
def forked() -> Iterator[None]:
    """Let Jupyter find the forked kernels before all others."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "kernels", "python3", "kernel.json")
        spec.parent.mkdir(parents=True)
        command = [sys.executable, "-S", "-E", __file__, folder, "{connection_file}"]
        spec.write_text(json.dumps({"argv": command, "display_name": "forked", "language": "python"}))
        command = [sys.executable, "-m", __name__, folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            server.stdout.readline()
            os.environ["JUPYTER_PATH"] = folder
            yield
            del os.environ["JUPYTER_PATH"]


def serve(folder: str) -> None:
    """Fork a kernel for each that connects, with its arguments, environment, folder and streams."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/socket")
        server.listen()
        print("listens", flush=True)
        os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as kernels do, before it's imported
        for name in filter(lambda name: find_spec(name.partition(".")[0]), IMPORTED):
            import_module(name)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        while True:
            asked, _ = server.accept()
            if os.fork() == 0:
                return kernel(asked)
            asked.close()


def kernel(asked: socket.socket) -> None:
    """Become the kernel; whoever asked ends with it, and it with them."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, streams, _, _ = socket.recv_fds(asked, 2**20, 3)
    arguments, environment, folder = json.loads(request)
    for to, stream in enumerate(streams):
        os.dup2(stream, to)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    asked.send(str(os.getpid()).encode())
    threading.Thread(target=lambda: (asked.recv(1), os._exit(0)), daemon=True).start()
    from ipykernel.kernelapp import IPKernelApp

    IPKernelApp.launch_instance(["-f", *arguments, f"--IPKernelApp.parent_handle={environment['JPY_PARENT_PID']}"])


def ask(folder: str, *arguments: str) -> None:
    """Ask for a kernel, pass interrupts on to it, and wait until it ends."""
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(f"{folder}/socket")
        request = json.dumps([arguments, dict(os.environ), os.getcwd()]).encode()
        socket.send_fds(server, [request], [0, 1, 2])
        pid = int(server.recv(20))
        signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))
        while server.recv(1):
            pass


if __name__ == "__main__":
    (serve if len(sys.argv) == 2 else ask)(*sys.argv[1:])
