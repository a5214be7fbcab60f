(root => {
  "use strict";
  const trace = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const part = name => root.querySelector(`svg ${name}`);
  const make = (tag, props) => Object.assign(document.createElement(tag), props);
  const choice = (label, names) => {
    const select = make("select");
    select.setAttribute("aria-label", label);
    select.append(...names.map(name => make("option", { textContent: name })));
    return select;
  };
  const bar = make("div", { className: "controls" });
  const play = make("button", { type: "button", textContent: "▶ play" });
  const slider = make("input", { type: "range", min: 1, value: 1 });
  slider.setAttribute("aria-label", "visit");
  const masks = choice("mask", Object.keys(trace));
  const sizes = choice("size of the tiles", Object.values(trace)[0][1].map(([size]) => `tiles of ${size} by ${size}`));
  const words = make("output", { className: "words" });
  const total = make("div", { className: "words total" });
  bar.append(masks, sizes, play, slider, words, total);
  root.append(bar);

  let size, visits, bytes, timer = 0;
  const place = (box, [row, col]) => {
    const square = { x: size * col, y: size * row, width: size, height: size };
    for (const [key, value] of Object.entries(square)) box.setAttribute(key, value);
    return box;
  };

  function draw() {
    const at = slider.value - 1;
    place(part(".at"), visits[at]);
    [...part(".parts").children].forEach((tile, index) => tile.classList.toggle("done", index <= at));
    words.textContent = `visit ${at + 1} of ${visits.length}, a ${["", "partial", "whole"][visits[at][2]]} tile · ` +
      `moved: ${bytes[at].toLocaleString("en-US")} bytes`;
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
    slider.max = visits.length;
    slider.value = 1;
    draw();
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶ play";
  }

  function start() {
    if (+slider.value === visits.length) slider.value = 1;
    play.textContent = "❚❚ pause";
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      draw();
      if (+slider.value === visits.length) stop();
    }, Math.max(40, 6000 / visits.length));
    draw();
  }

  play.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => { stop(); draw(); });
  for (const select of [masks, sizes]) select.addEventListener("change", () => { stop(); open(); });
  open();
})(document.currentScript.parentElement);
