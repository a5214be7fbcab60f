(root => {
  "use strict";
  const trace = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
  const frames = [...root.querySelectorAll(".frame")];
  const make = (tag, props) => Object.assign(document.createElement(tag), props);
  const bar = make("div", { className: "controls" });
  const play = make("button", { type: "button", textContent: "▶ play" });
  const slider = make("input", { type: "range", min: 1, value: 1 });
  slider.setAttribute("aria-label", "step");
  const choose = make("select");
  choose.setAttribute("aria-label", "which run");
  const words = make("output", { className: "words" });
  choose.append(...Object.keys(trace).map(name => make("option", { textContent: name })));
  bar.append(play, slider);
  if (frames.length > 1) bar.append(choose);
  bar.append(words);
  root.append(bar);

  let marks, text, names, steps, timer = 0;

  function draw() {
    for (const [, changes] of steps.slice(0, slider.value)) {
      for (let at = 0; at < changes.length; at += 2) {
        const place = changes[at], value = changes[at + 1];
        const mark = marks[Math.floor(place / names.length)], name = names[place % names.length];
        if (name === "text") mark.textContent = value;
        else mark.setAttribute(name, value);
      }
    }
    const numbers = [...steps[slider.value - 1][0]];
    words.textContent = text.replace(/{}/g, () => numbers.shift().toLocaleString("en-US"));
  }

  function open() {
    const frame = frames[choose.selectedIndex];
    frames.forEach(other => { other.hidden = other !== frame; });
    marks = frame.querySelector("svg").children;
    [text, names, ...steps] = trace[choose.value];
    slider.max = steps.length;
    slider.value = 1;
    draw();
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "▶ play";
  }

  function start() {
    if (+slider.value === steps.length) slider.value = 1;
    play.textContent = "❚❚ pause";
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      draw();
      if (+slider.value === steps.length) stop();
    }, Math.max(300, Math.min(1500, 12000 / steps.length)));
    draw();
  }

  play.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => { stop(); draw(); });
  choose.addEventListener("change", () => { stop(); open(); });
  open();
})(document.currentScript.parentElement);
