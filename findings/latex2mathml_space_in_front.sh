#!/usr/bin/env bash
# latex2mathml drops every space of a \text that begins with one; of one that ends with a space it keeps all.
# latex2mathml 3.78.1: \text{ scores kept} becomes "scoreskept", \text{for the } stays as it is, with no-break spaces.
"$(dirname "$0")/in_venv" latex2mathml==3.78.1 << 'EOF'
import re
from importlib.metadata import version

from latex2mathml.converter import convert

words = [re.search("<mtext>(.*)</mtext>", convert(tex))[1] for tex in (r"\text{ scores kept}", r"\text{for the }")]
print(version("latex2mathml"), words)
assert words == ["scoreskept", "for&#x000A0;the&#x000A0;"]
EOF
