/* A lesson as slides, from the page itself: press P, or open it with #present. One heading, figure, formula, question at a
   time, moved onto the slide and back again, so that what moves goes on moving, with the sentence that leads to it. */

"use strict";

const SHOWN = "figure, .attnlab-moving, div.math, blockquote, .tag_predict, .output table, .table-wrapper";
const QUESTION = "The question of this lesson";
const slide = Object.assign(document.createElement("div"), { id: "slide", hidden: true, tabIndex: -1 });
const stage = Object.assign(document.createElement("div"), { className: "stage" });
const list = document.createElement("select");
let slides = [], at = 0, home = null;

/* The first or the last sentence of a paragraph, with its formulas and links. */
function sentence(paragraph, last) {
  const part = document.createRange(), texts = document.createTreeWalker(paragraph, NodeFilter.SHOW_TEXT);
  part.selectNodeContents(paragraph);
  const ends = [...paragraph.textContent.matchAll(/[.?!]["”’)]?(?=\s+[A-Z“])/g)].map(end => end.index + end[0].length);
  let left = last ? ends.at(-1) : ends.find(end => end > 20);  /* more than a word that names a paragraph */
  while (left !== undefined && texts.nextNode()) {
    const text = texts.currentNode;
    if (left <= text.length) {
      last ? part.setStart(text, left) : part.setEnd(text, left);
      break;
    }
    left -= text.length;
  }
  return part.cloneContents();
}

/* A copy for a slide; a place on the page is named only once. */
function own(tag, contents) {
  const made = document.createElement(tag);
  made.append(...contents.cloneNode(true).childNodes);
  made.querySelectorAll("a.headerlink").forEach(sign => sign.remove());
  made.querySelectorAll("[id]").forEach(named => named.removeAttribute("id"));
  return made;
}

/* What leads to a part: the question of a prediction, otherwise the last sentence before. */
function lead(section, part) {
  if (part.matches("p, blockquote")) return null;
  let block = part;
  while (block.parentElement !== section) block = block.parentElement;
  const before = block.previousElementSibling;
  if (before?.tagName !== "P" || before.textContent.startsWith(QUESTION)) return null;
  return part.matches(".tag_predict") ? own("p", before) : own("p", sentence(before, true));
}

/* The slides of a page: each section begins with its heading and first sentence; then what is shown in it. */
function collectSlides() {
  const found = [];
  for (const section of document.querySelectorAll("article section")) {
    const heading = section.querySelector(":scope > :is(h1, h2)");
    if (!heading || heading.textContent.startsWith("Further")) continue;
    const title = size => own(size, heading), name = title("p").textContent;
    const parts = [...section.querySelectorAll(`${SHOWN}, p`)].filter(part => part.closest("section") === section
      && (part.tagName !== "P" || part.textContent.startsWith(QUESTION))
      && !part.parentElement.closest(SHOWN) && !part.closest("details"));
    const first = section.querySelector(":scope > p:not(:has(em:only-child))");
    parts.forEach(part => part.classList.toggle("states", part.textContent.includes("not attempted")));
    const leads = parts.map(part => lead(section, part));
    let said = first && !name.includes("Your turn") && own("p", name === "Summary" ? first : sentence(first, false));
    if (said && leads[0]?.textContent.trim() === said.textContent.trim()) said = null;  /* it comes with its part */
    if (said || leads[0]) found.push({ name, place: heading, shown: [title("h1"), ...(said ? [said] : [])] });
    parts.forEach((part, number) => found.push({ name, place: part, part, shown: [title("h2"), ...(leads[number] ? [leads[number]] : [])] }));
  }
  return found;
}

function putBack() {
  home?.replaceWith(slides[at].part);
  slides[at]?.part?.classList.remove("on-slide");
  home = null;
}

/* As large as the slide allows; code, down to what can still be read, before its lines are broken. */
function fit() {
  const { part } = slides[at], boxes = [stage, ...stage.querySelectorAll("*")];
  if (!part || part.matches("figure, .attnlab-moving")) return;
  const fits = () => slide.scrollHeight <= slide.clientHeight + 1 && boxes.every(box => box.scrollWidth <= box.clientWidth + 1 || getComputedStyle(box).display === "inline");
  for (const breaks of part.querySelector("pre, tr") ? [false, true] : [false]) {
    stage.classList.toggle("breaks", breaks);
    for (let size = part.matches("div.math, p, blockquote") ? 1.6 : 1; size > (breaks ? 0.53 : 0.68); size -= 0.05) {
      stage.style.fontSize = `${size}em`;
      if (fits()) return;
    }
  }
  stage.style.fontSize = "0.7em";  /* and it scrolls */
}

function turn(to) {
  putBack();
  at = Math.max(0, Math.min(slides.length - 1, to));
  const { part, shown } = slides[at];
  stage.replaceChildren();
  stage.removeAttribute("style");
  slide.firstElementChild.replaceChildren(...shown, ...(part ? [stage] : []));
  list.selectedIndex = at;
  if (part) {
    home = document.createComment("");
    part.replaceWith(home);
    part.classList.add("on-slide");
    stage.append(part);
    fit();
  }
  slide.scrollTop = 0;
  history.replaceState(null, "", `#present-${at + 1}`);
}

/* On: what is read on a long slide, or the next one. */
function go(step) {
  const rest = step > 0 ? slide.scrollHeight - slide.clientHeight - slide.scrollTop : slide.scrollTop;
  if (rest > 1) slide.scrollBy(0, step * Math.min(rest, 0.8 * slide.clientHeight));
  else turn(at + step);
}

/* Begins at what is read, and ends there. */
function present(on, to) {
  if (on === !slide.hidden) return;
  if (on) {
    slides = collectSlides();
    list.replaceChildren(...slides.map(({ name }, number) => new Option(`${number + 1} / ${slides.length} · ${name}`)));
    const seen = slides.findLastIndex(({ place }) => place.getBoundingClientRect().top < innerHeight / 2);
    slide.hidden = false;
    at = 0;
    turn(to ?? (scrollY ? seen : 0));
    slide.focus();
  } else {
    putBack();
    slide.hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
  }
  document.body.classList.toggle("presenting", on);
  document.querySelector(".page").inert = on;
  if (!on) slides[at].place.scrollIntoView({ behavior: "instant", block: "center" });
}

function button(text, name, act) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  made.setAttribute("aria-label", name);
  made.addEventListener("click", act);
  return made;
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.querySelector("article section h2")) return;
  const foot = document.createElement("footer");
  list.setAttribute("aria-label", "all slides");
  list.addEventListener("change", () => { turn(list.selectedIndex); slide.focus(); });
  foot.append(button("‹", "the slide before", () => turn(at - 1)), list, button("›", "the next slide", () => turn(at + 1)), button("×", "end the slides", () => present(false)));
  slide.append(document.createElement("div"), foot);
  document.body.append(slide);
  let from = null;  /* a finger has no keys: it wipes */
  slide.addEventListener("touchstart", event => { from = event.target.closest("input, pre, .output") ? null : event.touches[0]; });
  slide.addEventListener("touchend", event => {
    const to = event.changedTouches[0], [x, y] = from ? [to.clientX - from.clientX, to.clientY - from.clientY] : [0, 0];
    if (Math.abs(x) > 50 && Math.abs(x) > 2 * Math.abs(y)) turn(at - Math.sign(x));
  });
  /* who took a slider with the mouse turns with the arrows again */
  slide.addEventListener("pointerup", event => event.target.matches("input[type=range]") && event.target.blur());
  slide.addEventListener("toggle", fit, true);
  addEventListener("resize", () => slide.hidden || fit());
  document.addEventListener("click", event => {  /* a link to the page that is shown leads to a slide */
    const target = !slide.hidden && document.getElementById(event.target.closest("#slide a[href^='#']")?.hash.slice(1));
    if (!target || event.defaultPrevented) return;
    event.preventDefault();
    const to = slides.findIndex(({ place }) => target.contains(place) || place.contains(target));
    if (to >= 0) turn(to);
  });
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("textarea, [contenteditable]")) return;
    const step = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 }[event.key];
    if (event.target.closest("input, select") && !/^(Page|Esc)/.test(event.key)) return;  /* whose keys they are */
    if (event.key === " " && event.target.closest("a, button, summary")) return;
    if (event.key === "p" || event.key === "P") present(slide.hidden);
    else if (slide.hidden) return;
    else if (event.key === "Escape") present(false);
    else if (event.key === "Home" || event.key === "End") turn(event.key === "Home" ? 0 : slides.length);
    else if (event.key.startsWith("Arrow")) /Left|Right/.test(event.key) ? turn(at + step) : go(step);
    else if (step) go(step);
    else return;
    event.preventDefault();
  });
  const asked = location.hash.match(/^#present(?:-(\d+))?$/);
  if (asked) present(true, (asked[1] ?? 1) - 1);
});
