"""What tests share: the oracle, the calls that all must answer alike, comparisons, libraries, deliberate mistakes."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHONPATH = os.pathsep.join(map(str, (ROOT, ROOT / "notebooks")))  # of processes that tests start


def selected(request, name):
    """The values of a parameter in those tests of the module that run: what others need is not computed for them."""
    items = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    return [item.callspec.params[name] for item in items if name in item.callspec.params]
