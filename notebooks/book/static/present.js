/* A lesson as slides, from the page itself: press P, or open it with #present. One heading, figure, formula, question at a
   time, moved onto the slide and back again, so that what moves goes on moving. */

"use strict";

const SHOWN = "figure, .attnlab-moving, div.math, blockquote, .tag_predict, .output table, .table-wrapper";
const slide = Object.assign(document.createElement("div"), { id: "slide", hidden: true });
const close = Object.assign(document.createElement("button"), { type: "button", textContent: "×" });
close.setAttribute("aria-label", "end the slides");
let slides = [], at = 0, home = null;

/* The slides of a page: each section begins with its heading and first sentence; then what is shown in it. */
function collectSlides() {
  const found = [];
  for (const section of document.querySelectorAll("article section")) {
    const heading = section.querySelector(":scope > :is(h1, h2)");
    if (!heading) continue;
    const title = heading.cloneNode(true);
    title.querySelectorAll("a.headerlink").forEach(sign => sign.remove());
    const first = section.querySelector(":scope > p:not(:has(em:only-child))");
    const said = first && Object.assign(document.createElement("p"), { innerHTML: first.innerHTML.match(/^.*?[.?!](?=\s|$)/s)?.[0] ?? first.innerHTML });
    found.push({ title: title.textContent, big: true, said });
    for (const part of section.querySelectorAll(SHOWN)) {
      if (part.closest("section") === section && !part.parentElement.closest(SHOWN) && !part.closest("details"))
        found.push({ title: title.textContent, part });
    }
  }
  return found;
}

function putBack() {
  home?.replaceWith(slide.querySelector(".on-slide"));
  slide.querySelector(".on-slide")?.classList.remove("on-slide");
  document.querySelector("article .on-slide")?.classList.remove("on-slide");
  home = null;
}

function turn(to) {
  putBack();
  at = Math.max(0, Math.min(slides.length - 1, to));
  const { title, big, said, part } = slides[at];
  const heading = Object.assign(document.createElement(big ? "h1" : "h2"), { textContent: title });
  const place = Object.assign(document.createElement("footer"), { textContent: `${at + 1} / ${slides.length}` });
  slide.replaceChildren(heading, ...(said ? [said] : []), place, close);
  if (!part) return;
  home = document.createComment("");
  part.before(home);
  part.classList.add("on-slide");
  heading.after(part);
}

function present(on) {
  if (on === !slide.hidden) return;
  if (on) slides = collectSlides();
  slide.hidden = !on;
  document.body.classList.toggle("presenting", on);
  on ? turn(0) : putBack();
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.querySelector("article section h2")) return;
  document.body.append(slide);
  close.addEventListener("click", () => present(false));
  slide.addEventListener("click", event => {  /* a finger has no keys: the left third goes back, the rest on */
    if (!event.target.closest("a, button, input, select, summary, [contenteditable]"))
      turn(at + (event.clientX < innerWidth / 3 ? -1 : 1));
  });
  document.addEventListener("keydown", event => {
    if (event.target.closest("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 }[event.key];
    if (event.key === "p" || event.key === "P") present(slide.hidden);
    else if (slide.hidden) return;
    else if (event.key === "Escape") present(false);
    else if (event.key === "Home" || event.key === "End") turn(event.key === "Home" ? 0 : slides.length);
    else if (step) turn(at + step);
    else return;
    event.preventDefault();
  });
  if (location.hash === "#present") present(true);
});
