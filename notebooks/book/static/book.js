/* What the pages do: formulas on hover, addresses to copy, how far one has read. Works from the file system. */

"use strict";

/* The formula that "(8.4)" cites: on hover, on focus, on a first tap. */
const card = Object.assign(document.createElement("div"), { id: "formula", hidden: true });
card.setAttribute("role", "tooltip");
let shown = null;

function show(link) {
  shown = link;
  card.innerHTML = link.dataset.formula;
  card.querySelector("[id]")?.removeAttribute("id");
  card.hidden = false;
  const place = link.getBoundingClientRect(), size = card.getBoundingClientRect();
  const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - size.width - 8));
  const above = place.top > size.height + 16;
  card.style.left = `${left + scrollX}px`;
  card.style.top = `${scrollY + (above ? place.top - size.height - 8 : place.bottom + 8)}px`;
}

function hide() {
  shown = null;
  card.hidden = true;
}

function onEquations() {
  document.body.append(card);
  const link = event => event.target.closest?.("a.eq");
  let before = null;  /* what was shown when the finger came down: a tap is also a mouseover and a focusin */
  document.addEventListener("pointerdown", () => { before = shown; });
  document.addEventListener("mouseover", event => link(event) && show(link(event)));
  document.addEventListener("mouseout", event => link(event) && hide());
  document.addEventListener("focusin", event => link(event) && show(link(event)));
  document.addEventListener("focusout", event => link(event) && hide());
  document.addEventListener("keydown", event => event.key === "Escape" && hide());
  document.addEventListener("click", event => {
    const at = link(event);
    if (!at) return hide();
    if (event.pointerType !== "touch" || before === at) return;
    event.preventDefault();  /* the second tap goes there */
    show(at);
  });
}

/* A displayed formula that is too wide becomes smaller, down to 80%; beyond that it scrolls. */
function onNarrow() {
  const formulas = [...document.querySelectorAll("div.math")];
  const fit = () => {
    formulas.forEach(formula => { formula.style.fontSize = ""; formula.classList.remove("wide"); });
    formulas.filter(formula => formula.scrollWidth > formula.clientWidth).forEach(formula => formula.classList.add("wide"));
    const parts = formulas.map(formula => formula.clientWidth / formula.scrollWidth || 1);
    formulas.forEach((formula, at) => { if (parts[at] < 1) formula.style.fontSize = `${Math.max(80, Math.floor(100 * parts[at]))}%`; });
  };
  fit();
  addEventListener("resize", fit);
  document.addEventListener("toggle", fit, true);
}

/* A heading's, a figure's or an erratum's sign copies its address. */
function onAddresses() {
  document.addEventListener("click", event => {
    const sign = event.target.closest?.("a.headerlink, figcaption a.number, [id^=erratum] > strong > a");
    if (!sign || !navigator.clipboard) return;
    navigator.clipboard.writeText(sign.href).then(() => {
      sign.classList.add("copied");
      setTimeout(() => sign.classList.remove("copied"), 1200);
    }, () => {});
  });
}

/* The sidebar shows how far this page is read, and which pages were read to their end. */
function onProgress() {
  const current = document.querySelector(".sidebar-tree .current-page > a.reference");
  const name = location.pathname.split("/").pop(), bar = current?.closest(".sidebar-scroll");
  /* the sidebar begins where one is, not at the top of a list of forty pages */
  bar?.scrollBy({ top: current.getBoundingClientRect().top - bar.getBoundingClientRect().top - bar.clientHeight / 2, behavior: "instant" });
  let read;
  try { read = new Set(JSON.parse(localStorage.getItem("read") ?? "[]")); } catch { return; }
  const mark = () => document.querySelectorAll(".sidebar-tree a.reference").forEach(link => {
    const page = link.getAttribute("href").replace(/#$/, "").split("/").pop() || name;
    link.classList.toggle("read", read.has(page));
  });
  const update = () => {
    const far = document.documentElement.scrollHeight - innerHeight;
    const part = far > 0 ? Math.min(1, scrollY / far) : 1;
    current?.style.setProperty("--part", part);
    if (part > 0.97 && far > innerHeight && !read.has(name)) {
      read.add(name);
      try { localStorage.setItem("read", JSON.stringify([...read])); } catch { /* a private window */ }
      mark();
    }
  };
  mark();
  update();
  addEventListener("scroll", update, { passive: true });
}

/* A hit of the search shows sentences: without the page's furniture. */
function onSearch() {
  const none = "Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories.";
  Documentation.TRANSLATIONS[none] = "Nothing found. A page has to have every word: try fewer of them, check the spelling, or look into the glossary.";
  const read = Search.htmlToText;
  Search.htmlToText = (page, anchor) => {
    const parsed = new DOMParser().parseFromString(page, "text/html");
    parsed.querySelectorAll("nav.neighbors, .live, .about-page, div.math, .cell_input, .cell summary, svg").forEach(part => part.remove());
    parsed.querySelectorAll("dt, th, td").forEach(part => part.append(" "));
    parsed.querySelectorAll("span.math").forEach(formula => {  /* in one line, what is raised would stand beside its base */
      formula.replaceWith(formula.querySelector("msup, msub, msubsup, mfrac, munder, munderover") ? "…" : formula.textContent);
    });
    return read(parsed.documentElement.outerHTML, anchor);
  };
  /* Headings with all the words come first, those of questions after the others, the shorter the earlier; the last is shown first. */
  const perform = Search._performSearch;
  Search._performSearch = (query, words, excluded, ...rest) => {
    const { alltitles, titles, docnames, filenames } = Search._index, headings = [];
    for (const [title, places] of Object.entries(alltitles)) {
      const has = word => title.toLowerCase().includes(word);
      if (!words.size || ![...words].every(has) || [...excluded].some(has)) continue;
      for (const [file, id] of places) {
        const name = titles[file] === title ? title : `${titles[file]} > ${title}`;
        const score = docnames[file].startsWith("questions/") ? -1000 : -title.length;
        headings.push([docnames[file], name, id === null ? "" : `#${id}`, null, score, filenames[file], SearchResultKind.title]);
      }
    }
    const place = ([page, , anchor]) => page + anchor, found = new Set(headings.map(place));
    const others = perform(query, words, excluded, ...rest).filter(hit => !found.has(place(hit)));
    return [...others, ...headings.sort((a, b) => a[4] - b[4])];
  };
}

/* The first page's slider: what both algorithms hold and move, from the table that Python wrote. */
function onScale(root) {
  const sizes = JSON.parse(root.dataset.sizes), cells = root.querySelectorAll("td"), slider = root.querySelector("input");
  slider.addEventListener("input", () => {
    const [tokens, ...values] = sizes[slider.value];
    root.querySelector("output").textContent = tokens;
    values.forEach((value, index) => { cells[index].textContent = value; });
  });
}

/* A concept question: an option is clicked, and the answer opens with what is said of that option. */
function onQuestions() {
  for (const answer of document.querySelectorAll("article details")) {
    const options = answer.previousElementSibling;
    if (answer.querySelector("summary")?.textContent.trim() !== "Answer" || options?.tagName !== "UL") continue;
    options.classList.add("options");
    options.setAttribute("role", "radiogroup");
    options.setAttribute("aria-label", "answers to choose from");
    const said = [...answer.querySelectorAll(":scope > p, li")];
    for (const option of options.children) {
      const letter = option.querySelector("strong").textContent.trim();
      const right = said.some(text => text.tagName === "P" && text.textContent.startsWith(`${letter}.`));
      const choose = () => {
        for (const other of options.children) {
          other.classList.remove("right", "wrong");
          other.setAttribute("aria-checked", other === option);
          other.tabIndex = other === option ? 0 : -1;
        }
        option.classList.add(right ? "right" : "wrong");
        answer.open = true;
        said.forEach(text => text.classList.toggle("chosen", !right && new RegExp(`^If you chose [^:]*${letter}`).test(text.textContent)));
      };
      option.tabIndex = option === options.firstElementChild ? 0 : -1;  /* Tab enters the group, arrows move in it */
      option.setAttribute("role", "radio");
      option.setAttribute("aria-checked", "false");
      option.addEventListener("click", choose);
      option.addEventListener("keydown", event => {
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key], all = [...options.children];
        if (event.key === "Enter" || event.key === " ") choose();
        else if (step) all.at((all.indexOf(option) + step) % all.length).focus();
        else return;
        event.preventDefault();
      });
    }
  }
}

/* A field under the heading: what is typed leaves the entries that have it. */
function filter(words, entries) {
  const field = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder: words });
  field.setAttribute("aria-label", words);
  const count = Object.assign(document.createElement("output"), { className: "count" });
  const place = document.querySelector("div.filter");
  place.append(field, count);
  place.hidden = false;
  const tables = new Set(entries.map(parts => parts[0].closest("table")).filter(Boolean));
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase().split(/\s+/);
    for (const parts of entries) {
      const text = parts.map(part => part.dataset.said ?? part.textContent).join(" ").toLowerCase();
      const has = wanted.every(word => text.includes(word));
      parts.forEach(part => { part.hidden = !has; });
      const folded = parts[0].closest("details");
      if (folded && has && field.value) folded.open = true;
    }
    for (const table of tables) {  /* one without rows goes, and the line that names it */
      const shown = table.closest(".table-wrapper") ?? table, above = shown.previousElementSibling;
      shown.hidden = [...table.tBodies[0].rows].every(row => row.hidden);
      if (above?.matches("p:has(> strong:only-child)")) above.hidden = shown.hidden;
    }
    count.textContent = field.value && `${entries.filter(parts => !parts[0].hidden).length} of ${entries.length}`;
    document.querySelectorAll("article section").forEach(section => {
      const found = section.querySelectorAll(":scope > dl dt");
      section.classList.toggle("empty", found.length > 0 && [...found].every(term => term.hidden));
    });
  });
}

function onGlossary() {
  filter("Filter: a letter or a word", [...document.querySelectorAll("article dt")].map(term => [term, term.nextElementSibling]));
}

/* Each row of a table of verdicts is found by its lesson, its source, its verdict or any word. */
function onReproductions() {
  const entries = [];
  for (const table of document.querySelectorAll("article table")) {
    const head = [...table.querySelectorAll("thead th")].map(cell => cell.textContent.trim());
    if (!head.includes("verdict") || !head.includes("source")) continue;
    const above = (table.closest(".table-wrapper") ?? table).previousElementSibling?.textContent ?? "";
    for (const row of table.querySelectorAll("tbody tr")) {
      row.dataset.said = `${above} ${row.textContent}`;
      entries.push([row]);
    }
  }
  filter("Filter: lesson 08, vLLM, refuted, …", entries);
}

/* The names in Recipes: what is called differently elsewhere. */
function onRecipes() {
  const named = table => table.querySelector("thead th").textContent === "elsewhere";
  const tables = [...document.querySelectorAll("article table")].filter(named);
  filter("Filter the names: softmax_scale, GQA, …", tables.flatMap(table => [...table.tBodies[0].rows].map(row => [row])));
}

/* The choices above the table of conventions: how many functions answer so. */
function onConventions() {
  const form = document.querySelector(".conventions form"), rows = [...document.querySelectorAll(".conventions tbody tr")];
  const count = Object.assign(document.createElement("output"), { className: "count" });
  form.append(count);
  const tell = () => {
    const shown = rows.filter(row => row.offsetParent).length;
    count.textContent = `${shown || "None"} of ${rows.length}${shown ? "" : ": choose “all” in a line above"}`;
  };
  form.addEventListener("change", tell);
  tell();
}

/* On paper nothing can be unfolded: a reason, a listing and what a cell prints are open; hints, solutions and answers stay shut.
   What moves has arrived. */
function onPaper() {
  const folded = () => document.querySelectorAll("article details:not(.hint, .solution, .code-of-figure, .above-input)");
  const shut = [];
  addEventListener("beforeprint", () => {
    document.querySelectorAll(".attnlab-moving .controls > input").forEach(film => {
      film.value = film.max;
      film.dispatchEvent(new Event("input"));
    });
    for (const part of folded()) {
      if (part.open || part.querySelector("summary")?.textContent.trim() === "Answer") continue;
      part.open = true;
      shut.push(part);
    }
  });
  addEventListener("afterprint", () => shut.splice(0).forEach(part => { part.open = false; }));
}

if (typeof Search !== "undefined") onSearch();  /* which begins as soon as the page is there */

document.addEventListener("DOMContentLoaded", () => {
  for (const [side, label] of [["sidebar", "pages of the course"], ["toc", "contents of this page"]])
    document.querySelector(`aside.${side}-drawer`)?.setAttribute("aria-label", label);
  onEquations();
  onAddresses();
  onProgress();
  onNarrow();
  onPaper();
  document.querySelectorAll(".scale").forEach(onScale);
  if (location.pathname.includes("/questions/")) onQuestions();
  if (location.pathname.endsWith("/glossary.html")) onGlossary();
  if (location.pathname.endsWith("/reproductions.html")) onReproductions();
  if (location.pathname.endsWith("/recipes.html")) onRecipes();
  if (location.pathname.endsWith("/libraries.html")) onConventions();
});
