const frames = [...root.querySelectorAll(".frame")];
const film = player("step", draw);
const choose = choice("which run", Object.keys(trace), open);
bar.append(...film.parts, ...(frames.length > 1 ? [choose] : []), words);
let marks, text, names, steps;

function draw(step) {
  for (const [, changes] of steps.slice(0, step)) {
    for (let at = 0; at < changes.length; at += 2) {
      const place = changes[at], value = changes[at + 1];
      const mark = marks[Math.floor(place / names.length)], name = names[place % names.length];
      if (name === "text") mark.textContent = value;
      else mark.setAttribute(name, value);
    }
  }
  const numbers = [...steps[step - 1][0]];
  words.textContent = text.replace(/{}/g, () => number(numbers.shift()));
}

function open() {
  const frame = frames[choose.selectedIndex];
  frames.forEach(other => { other.hidden = other !== frame; });
  marks = frame.querySelector("svg").children;
  [text, names, ...steps] = trace[choose.value];
  film.begin(steps.length);
}

open();
if (root.dataset.autoplay && !matchMedia("(prefers-reduced-motion: reduce)").matches) film.start();
