(root => {
  "use strict";
  const trace = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const frames = [...root.querySelectorAll(".frame")];
  const make = (tag, props) => Object.assign(document.createElement(tag), props);
  const bar = make("div", { className: "controls" });
  const play = make("button", { type: "button", textContent: "▶ play" });
  const slider = make("input", { type: "range", min: 1, value: 1 });
  slider.setAttribute("aria-label", "visit");
  const choose = make("select");
  choose.setAttribute("aria-label", "which walk");
  const words = make("output", { className: "words" });
  choose.append(...Object.keys(trace).map(name => make("option", { textContent: name })));
  bar.append(play, slider);
  if (frames.length > 1) bar.append(choose);
  bar.append(words);
  root.append(bar);

  let frame, m, held, visits, unit, timer = 0;
  const number = x => x.toLocaleString("en-US");
  const put = (name, box) => {
    for (const part of frame.querySelectorAll(name))
      for (const [key, value] of Object.entries(box)) part.setAttribute(key, value * unit);
  };

  function draw() {
    const at = slider.value - 1, [row, rows, col, cols, loaded, stored, keys, queries] = visits[at];
    put(".x", { x: col, width: cols });
    put(".y", { y: row, height: rows });
    put(".scores", { x: col, width: cols, y: row, height: rows });
    for (const [name, fresh] of [[".keys", keys], [".queries", queries]])
      frame.querySelectorAll(name).forEach(part => part.classList.toggle("fresh", !!fresh));
    frame.querySelectorAll(".tile").forEach((tile, index) => tile.classList.toggle("done", index < at));
    words.textContent = `visit ${at + 1} of ${visits.length} · moved: ${number(loaded)} numbers in, ` +
      `${number(stored)} out · held: at most ${number(held)}`;
  }

  function open() {
    frame = frames[choose.selectedIndex];
    frames.forEach(other => { other.hidden = other !== frame; });
    [m, held, visits] = trace[choose.value];
    unit = +frame.querySelector(".unseen").getAttribute("width") / m;
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
  choose.addEventListener("change", () => { stop(); open(); });
  open();
  if (root.dataset.autoplay && !matchMedia("(prefers-reduced-motion: reduce)").matches) start();
})(document.currentScript.parentElement);
