/* What the pages do: formulas on hover, addresses to copy, how far one has read. Works from the file system. */

"use strict";

/* The formula that "(8.4)" cites: on hover, on focus, on a first tap. */
const card = Object.assign(document.createElement("div"), { id: "formula", hidden: true });
card.setAttribute("role", "tooltip");
let shown = null;

async function show(link) {
  shown = link;
  const formula = await MathJax.tex2svgPromise(link.dataset.tex, { display: true });
  if (shown !== link) return;
  card.replaceChildren(formula);
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
  document.addEventListener("mouseover", event => link(event) && show(link(event)));
  document.addEventListener("mouseout", event => link(event) && hide());
  document.addEventListener("focusin", event => link(event) && show(link(event)));
  document.addEventListener("focusout", event => link(event) && hide());
  document.addEventListener("keydown", event => event.key === "Escape" && hide());
  document.addEventListener("click", event => {
    const at = link(event);
    if (!at) return hide();
    if (event.pointerType === "touch" && card.hidden) event.preventDefault();  /* the second tap goes there */
  });
}

/* A heading's or figure's sign copies its address. */
function onAddresses() {
  document.addEventListener("click", event => {
    const sign = event.target.closest?.("a.headerlink, figcaption a.number");
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
  const name = location.pathname.split("/").pop();
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

document.addEventListener("DOMContentLoaded", () => {
  onEquations();
  onAddresses();
  onProgress();
});
