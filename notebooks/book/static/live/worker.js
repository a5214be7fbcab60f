/* Python for one page, in a thread of its own, which page.js can end. Nothing is fetched before page.js asks. */

"use strict";

const LIBRARIES = ["numpy", "threadpoolctl", "tqdm", "matplotlib"];
const silent = { messageCallback() {}, errorCallback() {} };
let cells;

async function start({ runtime, folder, archives }) {
  const tell = text => postMessage({ loading: text });
  tell("Python");
  importScripts(`${runtime}pyodide.js`);
  const python = await loadPyodide({ indexURL: runtime });
  for (const library of LIBRARIES) {
    tell(library);
    await python.loadPackage(library, silent);  /* without matplotlib the stored pictures stay: cells.py */
  }
  tell("attnlab");
  for (const archive of archives) {
    const answer = await fetch(`${folder}${archive}`);
    if (!answer.ok) throw new Error(`the site lacks ${archive}`);
    python.unpackArchive(await answer.arrayBuffer(), "zip", { extractDir: "/course" });
  }
  python.FS.writeFile("/course/cells.py", await (await fetch(`${folder}cells.py`)).text());
  python.runPython("import sys; sys.path.insert(0, '/course')");
  cells = python.pyimport("cells").Page((kind, text) => postMessage({ kind, text }));
  postMessage({ ready: true });
}

onmessage = async ({ data }) => {
  try {
    if (data.start) await start(data.start);
    else if ("skip" in data) cells.skip(data.skip);
    else postMessage({ done: cells.run(data.number, data.code) });
  } catch (error) {
    const away = data.start && (error.name === "NetworkError" || /fetch/i.test(error.message));
    postMessage(away ? { unreachable: true } : { failed: String(error.message ?? error).trim().split("\n").pop() });
  }
};
