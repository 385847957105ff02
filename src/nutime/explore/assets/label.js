// The labelling page: keys and buttons become one action at a time, about the series that is shown. Keys pressed
// before the page has confirmed the last action are ignored: they were meant for a series not yet seen.
const TIMEOUT_MS = 10_000; // after which a lost response no longer blocks the page
let pendingSince = 0;

function act(action) {
  const shown = document.getElementById("shown")?.dataset.series;
  if (!shown || Date.now() - pendingSince < TIMEOUT_MS) return;
  pendingSince = Date.now();
  document.body.classList.add("pending");
  const data = { series: Number(shown), ...action, at: pendingSince };
  window.dash_clientside.set_props("action", { data });
}

window.dash_clientside = window.dash_clientside ?? {};
window.dash_clientside.labelling = {
  confirmed(at) {
    if (Number(at) < pendingSince) return; // an update that does not include the action
    pendingSince = 0;
    document.body.classList.remove("pending");
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-action]");
  if (!button) return;
  if (event.detail) button.blur(); // by mouse: Space is for the next suggestion, not for the button again
  const { action, label, show } = button.dataset;
  act({ kind: action, ...(label && { label }), ...(show && { series: Number(show) }) });
});

document.addEventListener("keydown", (event) => {
  const typed = document.getElementById("new-class");
  if (!typed) return; // another page
  if (event.target === typed) {
    if (event.key === "Enter" && typed.value.trim()) act({ kind: "label", label: typed.value });
    if (event.key === "Enter" || event.key === "Escape") typed.blur();
    return;
  }
  if (event.target.matches?.("input:not(#colour *), textarea, select") || event.altKey || event.repeat) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key !== "z") return;
    event.preventDefault(); // the browser would undo what was typed, and move the keys there
    act({ kind: "undo" });
    return;
  }
  const digit = /^(?:Digit|Numpad)([0-9])$/.exec(event.code)?.[1];
  if (digit === "0") {
    act({ kind: "label", label: null });
  } else if (digit) {
    const button = document.querySelector(`#classes [data-key="${digit}"]`);
    if (button) act({ kind: event.shiftKey ? "cluster" : "label", label: button.dataset.label });
  } else if (event.key === " " && !event.target.matches?.("button")) {
    event.preventDefault(); // the page would scroll
    act({ kind: "skip" });
  } else if (event.key.length === 1 && event.key !== " ") {
    typed.focus(); // the key goes there
  }
});
