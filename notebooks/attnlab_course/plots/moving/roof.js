const set = (name, values) => {
  for (const [key, value] of Object.entries(values)) root.querySelector(name).setAttribute(key, value);
};
const fill = (select, names) => {
  const before = select.value;
  select.replaceChildren(...names.map(name => make("option", { textContent: name })));
  if (names.includes(before)) select.value = before;
};
const methods = choice("algorithm", Object.keys(trace), open);
const [heads, tiles] = ["head size", "tile"].map(label => choice(label, [], open));
const label = make("label");
const slider = make("input", { type: "range", min: 0, max: Object.values(trace)[0][0][1][0][2].length - 1 });
slider.setAttribute("aria-label", "number of tokens");
slider.value = root.querySelector("svg").dataset.first;
const length = make("span", { className: "length" });
const more = make("div", { className: "words total" });
label.append(length, slider);
bar.append(methods, heads, tiles, label, words, more);

function open() {
  const sizes = trace[methods.value];
  fill(heads, sizes.map(([d]) => `D = ${d}`));
  const blocks = sizes[heads.selectedIndex][1];
  fill(tiles, blocks.map(([rows]) => (rows ? `${rows} stay, 64 pass` : "no tile to choose")));
  tiles.disabled = blocks.length === 1;
  draw();
}

function draw() {
  const [, held, places] = trace[methods.value][heads.selectedIndex][1][tiles.selectedIndex];
  const [n, x, y, x2, y2, hbm, l2, arithmetic, cached, far, bound] = places[slider.value];
  length.textContent = `N = ${number(n)}`;
  slider.setAttribute("aria-valuetext", `${number(n)} tokens`);
  set(".point.hbm", { cx: x, cy: y });
  set(".point.l2", { x: x2 - 5, y: y2 - 5 });
  set(".ring", { ...(bound === 2 ? { cx: x, cy: y } : { cx: x2, cy: y2 }), r: bound ? 10 : 0 });
  words.textContent = `${["Compute-bound", "Bound by L2", "Bound by HBM"][bound]}: ` +
    `arithmetic ${number(arithmetic)} µs, L2 ${number(cached)} µs, HBM ${number(far)} µs`;
  more.textContent = `${number(l2)} FLOP per byte of L2 (green square), ${number(hbm)} per byte of HBM (orange dot)` +
    (held ? `. The tile takes ${held}.` : ".");
}

slider.addEventListener("input", draw);
open();
