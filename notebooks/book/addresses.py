"""What a page links to at the project's address, which is one setting: ``Source`` in pyproject's ``[project.urls]``.

While that is empty nothing is linked, and nothing is missing: how to cite a page is said in any case.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CITE = """
```{{raw}} html
<div class="about-page">{links}<details><summary>Cite this lesson</summary><pre>@misc{{attnlab-{key},
  author = {{{{{author}}}}},
  title  = {{{title}}},
  note   = {{{note}}}{url}
}}</pre></details></div>
```
"""


def urls() -> dict[str, str]:
    """The project's addresses, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {name: address.rstrip("/") for name, address in project.get("urls", {}).items()}


def install() -> str:
    """The first commands of an installation, as they are typed."""
    source = urls().get("Source")
    clone = f"git clone {source} && cd {source.rsplit('/')[-1].removesuffix('.git')}\n" if source else ""
    return f"```sh\n{clone}make lab     # opens the course in JupyterLab; the first time it installs everything\n```"


def foot(stem: str, title: str) -> str:
    """The end of a lesson's page, as Markdown: open elsewhere, edit, report, discuss, cite."""
    named, citation = urls(), (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    said = dict(line.strip("- ").split(": ", 1) for line in citation.splitlines() if ": " in line)
    links, url = "", ""
    if source := named.get("Source"):
        path = source.split("/", 3)[-1]
        places = {
            "Open in Colab": f"https://colab.research.google.com/github/{path}/blob/main/notebooks/{stem}.ipynb",
            "Open in Binder": f"https://mybinder.org/v2/gh/{path}/main?urlpath=lab/tree/work/{stem}.ipynb",
            "Edit this page": f"{source}/edit/main/notebooks/lessons/{stem}.md",
            "Report an error here": named.get("Issues", f"{source}/issues") + f"/new?title={stem}",
            "Discuss": named.get("Discussion", f"{source}/discussions"),
        }
        links = " · ".join(f'<a href="{address}">{text}</a>' for text, address in places.items())
        url = f",\n  url    = {{{source}}}"
    note = f"Version {said['version']} of {said['title'].strip(chr(34))}"
    return CITE.format(links=links, key=stem.replace("_", "-"), author=said["name"], title=title, note=note, url=url)
