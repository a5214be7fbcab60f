const trace = JSON.parse(root.querySelector('script[type="application/json"]').textContent);
const number = x => x.toLocaleString("en-US");
function make(tag, props) {
  const made = Object.assign(document.createElement(tag), props);
  made.dataset.lmSuppressShortcuts = ""; // in JupyterLab an arrow moves the slider, and doesn't go to another cell
  return made;
}
const bar = make("div", { className: "controls" });
const words = make("output", { className: "words" });
root.append(bar);

function choice(label, names, changed) {
  const select = make("select");
  select.setAttribute("aria-label", label);
  select.append(...names.map(name => make("option", { textContent: name })));
  select.addEventListener("change", changed);
  return select;
}

// A button and a slider over steps; draw(step) shows one, begin(count) rewinds to the first of so many.
function player(label, draw) {
  const button = make("button", { type: "button" });
  const slider = make("input", { type: "range", min: 1, value: 1 });
  slider.setAttribute("aria-label", label);
  let timer = 0;

  function stop() {
    clearInterval(timer);
    timer = 0;
    button.textContent = "▶ play";
  }

  function start() {
    if (slider.value === slider.max) slider.value = 1;
    button.textContent = "❚❚ pause";
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      draw(+slider.value);
      if (slider.value === slider.max) stop();
    }, Math.max(80, Math.min(1500, 12000 / slider.max)));
    draw(+slider.value);
  }

  function begin(count) {
    stop();
    slider.max = count;
    slider.value = 1;
    draw(1);
  }

  button.addEventListener("click", () => (timer ? stop() : start()));
  slider.addEventListener("input", () => { stop(); draw(+slider.value); });
  return { parts: [button, slider], begin, start };
}
