/* "Run this page here": the page's cells can be changed and run, by Python in the reader's browser (worker.js). */

"use strict";

class Live {
  constructor(bar) {
    this.bar = bar;
    this.button = bar.querySelector("button");
    this.said = bar.querySelector("[role=status]");
    this.stop = Object.assign(document.createElement("button"), { type: "button", textContent: "Stop", hidden: true });
    this.button.after(" ", this.stop);
    this.cells = [...document.querySelectorAll("article div.cell")].filter(cell => cell.querySelector(".cell_input pre")).map((root, at) => new Cell(root, at, this));
    this.button.addEventListener("click", () => this.run(bar.classList.contains("on") ? this.cells : []));
    this.stop.addEventListener("click", () => this.end("Stopped, and what was computed is gone: the next run starts at the top."));
    bar.hidden = false;
    if (location.protocol !== "file:") return;
    this.button.disabled = true;  /* a browser lets no page from a folder start Python */
    this.said.textContent = "A page that is opened from a folder can't run Python: python -m http.server -d build/book, then http://localhost:8000 can.";
  }

  /* The worker, once Python is ready in it. */
  start() {
    const here = new URL("_static/live/", location.href).href;
    const { runtime, archives } = this.bar.dataset, from = new URL(runtime, location.href);
    this.worker = new Worker(`${here}worker.js`);
    this.ready = new Promise((resolve, reject) => {
      this.worker.onerror = () => reject(new Error(`it comes from ${from.host}, which can't be reached. Press again once you're online; make lab runs the course without it`));
      this.worker.onmessage = ({ data }) => {
        if (data.loading) this.said.textContent = `Loading ${data.loading} …`;
        if (data.ready) resolve();
        if (data.unreachable) this.worker.onerror();
        if (data.failed) this.finish ? this.finish({ failed: data.failed }) : reject(new Error(data.failed));
        if (data.kind) this.current?.show(data.kind, data.text);
        if ("done" in data) this.finish(data);
      };
      this.worker.postMessage({ start: { runtime: from.href, folder: here, archives: archives.split(" ") } });
    });
  }

  /* Run cells, one after the other; those that take long, only if they are asked for, as the last. */
  async run(cells) {
    if (this.busy) return;
    this.busy = true;
    this.button.disabled = true;
    this.stop.hidden = false;
    const began = performance.now();
    try {
      if (!this.worker) this.start();
      await this.ready;
      if (!this.bar.classList.contains("on")) {
        this.bar.classList.add("on");
        this.bar.dataset.seconds = ((performance.now() - began) / 1000).toFixed(1);
        this.cells.forEach(cell => cell.open());
        this.button.textContent = "Run all cells";
      }
      for (const cell of cells) {
        if (cell.long && cells.length > 1 && cell !== cells.at(-1)) {
          this.worker.postMessage({ skip: cell.code });
          continue;
        }
        this.current = cell;
        cell.begin();
        const from = performance.now(), tick = () => {
          const seconds = Math.floor((performance.now() - from) / 1000);
          this.said.textContent = `Running cell ${cell.number} …${seconds < 5 ? "" : ` ${seconds} s. In a browser NumPy has one core and no BLAS, so products of matrices take long.`}`;
        };
        tick();
        this.ticking = setInterval(tick, 5000);
        const { done, failed } = await new Promise(resolve => {
          this.finish = resolve;
          this.worker.postMessage({ number: cell.number, code: cell.code });
        });
        clearInterval(this.ticking);
        if (failed) cell.show("error", failed);
        cell.finish(done);
      }
      this.said.textContent = "Ready. Every cell can be changed and run: Shift+Enter. What you change is kept as long as this tab is open.";
      this.idle();
    } catch (error) {
      this.end(`Python could not start: ${error.message.replace(/\.$/, "")}.`);
    }
  }

  idle() {
    clearInterval(this.ticking);
    this.busy = false;
    this.current = this.finish = null;
    this.button.disabled = false;
    this.stop.hidden = true;
  }

  /* End Python, whatever it is doing. */
  end(said) {
    this.worker?.terminate();
    this.worker = null;
    this.cells.forEach(cell => cell.forget());
    this.said.textContent = said;
    this.idle();
  }

  /* Run one cell, and before it those above it that have not run; what checks answers waits until it is asked. */
  runOne(cell) {
    const before = this.cells.slice(0, cell.number - 1).filter(other => !other.ran && !other.checks);
    this.run([...before, cell]);
  }
}

/* Storage is shut in some windows: then there is none. */
function attempt(what) {
  try { return what(); } catch { return null; }
}

/* A word of code, with the name of its color. */
function named(word) {
  return `${word.className} ${word.textContent}`;
}

class Cell {
  constructor(root, at, live) {
    Object.assign(this, { root, live, number: at + 1, ran: false, stored: false });
    this.checks = root.classList.contains("tag_check");
    this.long = root.classList.contains("tag_long");
    this.pre = root.querySelector(".cell_input pre");
    /* the code of a figure is folded into its caption, and stays */
    const drawn = this.pre.closest("figcaption") ? ".cell_output figure > :not(figcaption)" : ":scope > .cell_output, :scope > details.below-input";
    this.old = [...root.querySelectorAll(drawn)];
    this.written = this.pre.textContent;
    this.html = this.pre.innerHTML;
    this.words = new Set([...this.pre.querySelectorAll("[class]")].map(named));
    this.place = `${location.pathname} ${this.number} ${this.written}`;
  }

  get code() { return this.edited ?? this.pre.textContent; }

  /* Editable, with a button. */
  open() {
    this.pre.contentEditable = "plaintext-only";
    this.pre.spellcheck = false;
    Object.entries({ role: "textbox", "aria-multiline": true, "aria-label": `code of cell ${this.number}` }).forEach(entry => this.pre.setAttribute(...entry));
    this.pre.addEventListener("keydown", event => this.key(event));
    this.pre.addEventListener("input", () => this.change(this.pre.innerText));  /* as it is seen: what was pasted has elements for its line ends */
    this.back = Object.assign(document.createElement("button"), { type: "button", className: "run", textContent: "↺ Original", hidden: true });
    this.back.setAttribute("aria-label", `original code of cell ${this.number}`);
    this.back.addEventListener("click", () => { this.pre.innerHTML = this.html; this.change(this.written); });
    this.button = Object.assign(document.createElement("button"), { type: "button", className: "run", textContent: "▸ Run" });
    this.button.setAttribute("aria-label", `run cell ${this.number}`);
    this.button.addEventListener("click", () => this.live.runOne(this));
    this.output = Object.assign(document.createElement("div"), { className: "cell_output live-output" });
    this.output.setAttribute("aria-live", "polite");
    const input = [...this.root.children].find(part => part.contains(this.pre));
    input.after(this.button, " ", this.back, this.output);
    const kept = attempt(() => sessionStorage.getItem(this.place));
    if (kept !== null) { this.pre.textContent = kept; this.change(kept); }
  }

  /* What is written is kept, in this tab: leaving the page and coming back loses nothing. */
  change(code) {
    this.edited = code;
    this.ran = false;
    this.bare();
    this.back.hidden = code === this.written;
    attempt(() => this.back.hidden ? sessionStorage.removeItem(this.place) : sessionStorage.setItem(this.place, code));
  }

  /* What is written within a word of the original, or in its place, has not that word's color. */
  bare() {
    for (const word of this.pre.querySelectorAll("[class], [style], [color]")) {
      if (!this.words.has(named(word))) ["class", "style", "color"].forEach(name => word.removeAttribute(name));
    }
  }

  /* Shift+Enter runs; Enter keeps the indentation, and a colon before it adds to it; Backspace takes a step of it away. */
  key(event) {
    if (event.key !== "Enter" && event.key !== "Backspace") return;
    if (event.key === "Enter" && event.shiftKey) { event.preventDefault(); return this.live.runOne(this); }
    const selected = getSelection(), range = selected.getRangeAt(0).cloneRange();
    range.setStart(this.pre, 0);
    const before = range.cloneContents();
    before.querySelectorAll("br").forEach(end => end.replaceWith("\n"));  /* the line ends of what was pasted */
    const line = before.textContent.split("\n").pop();
    if (event.key === "Backspace") {
      if (!selected.isCollapsed || !/^( {4})+$/.test(line)) return;
      event.preventDefault();
      for (let step = 0; step < 4; step++) document.execCommand("delete");
      return;
    }
    event.preventDefault();
    document.execCommand("insertText", false, `\n${line.match(/^ */)[0]}${line.trimEnd().endsWith(":") ? "    " : ""}`);
  }

  begin() {
    this.output.replaceChildren();
    this.stored = false;
    this.root.classList.add("running");
    this.root.classList.remove("needs-installed");
    this.old.forEach(part => { part.hidden = true; });
  }

  /* One piece of output: see cells.py for the kinds. */
  show(kind, text) {
    if (kind === "stored") {
      this.stored = true;
    } else if (kind === "html") {
      const part = Object.assign(document.createElement("div"), { className: "output text_html", innerHTML: text });
      this.output.append(part);
      /* a script that is set as text does not run: what moves is started by one */
      for (const old of part.querySelectorAll("script:not([type])")) old.replaceWith(Object.assign(document.createElement("script"), { textContent: old.textContent }));
    } else if (kind === "needs") {
      this.root.classList.add("needs-installed");
      this.output.append(Object.assign(document.createElement("p"), { className: "needs", textContent: `This cell needs ${text}.` }));
    } else {
      const name = kind === "error" ? "output stderr traceback" : "output stream";
      let part = this.output.lastElementChild;
      if (part?.className !== name) this.output.append(part = Object.assign(document.createElement("pre"), { className: name }));
      part.append(text);
    }
  }

  finish(done) {
    this.ran = Boolean(done);
    this.root.classList.remove("running");
    /* what only the installed course makes, and what is as it was stored, stays to be seen */
    const keep = this.stored || this.root.classList.contains("needs-installed");
    this.old.forEach(part => { part.hidden = !keep; });
  }

  forget() {
    this.ran = false;
    this.root.classList.remove("running");
  }
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".live").forEach(bar => new Live(bar)));
