const part = name => root.querySelector(`svg ${name}`);
const walk = player("visit", draw);
const masks = choice("mask", Object.keys(trace), open);
const edges = Object.values(trace)[0][1].map(([size]) => `tiles of ${size} by ${size}`);
const sizes = choice("size of the tiles", edges, open);
const total = make("div", { className: "words total" });
bar.append(masks, sizes, ...walk.parts, words, total);
let size, visits, bytes;

function place(box, [row, col]) {
  const square = { x: size * col, y: size * row, width: size, height: size };
  for (const [key, value] of Object.entries(square)) box.setAttribute(key, value);
  return box;
}

function draw(step) {
  const visit = visits[step - 1];
  place(part(".at"), visit);
  [...part(".parts").children].forEach((tile, index) => tile.classList.toggle("done", index < step));
  words.textContent = `visit ${step} of ${visits.length}, a ${["", "partial", "whole"][visit[2]]} tile · ` +
    `moved: ${number(bytes[step - 1])} bytes`;
}

function open() {
  const [path, rows] = trace[masks.value];
  const [edge, found, digits, moved] = rows[sizes.selectedIndex];
  size = edge;
  bytes = moved;
  visits = digits.match(/.../g).map(three => [...three].map(digit => parseInt(digit, 16)));
  part(".seen").setAttribute("d", path);
  part(".parts").replaceChildren(...visits.map(visit => {
    const tile = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    tile.setAttribute("class", `part kind${visit[2]}`);
    return place(tile, visit);
  }));
  const [skipped, tiles, whole, partial, products, share, positions] = found;
  total.textContent = `At the end: ${skipped} of ${tiles} tiles skipped, ${whole} whole, ${partial} partial. ` +
    `${products} of dense attention’s products and ${share} of its bytes, where ${positions} of the positions are visible.`;
  walk.begin(visits.length);
}

open();
