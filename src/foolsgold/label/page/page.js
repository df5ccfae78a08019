"use strict";
// One pair at a time: ask the server for it, send the answer, show what comes back. Texts only ever become text nodes.

const KEYS = { 1: "relevant", 2: "unsure", 3: "not" };
const $ = (id) => document.getElementById(id);
const buttons = [...document.querySelectorAll("[data-label]")];

// Reloading keeps the tab's name, and with it the pair it shows.
const tab = sessionStorage.getItem("tab") || crypto.randomUUID();
sessionStorage.setItem("tab", tab);

let shown = null; // the pair on the screen
let busy = false; // a request is under way: a second press must not answer a pair that nobody has seen

async function post(path, values = {}) {
  if (busy) return;
  busy = true;
  buttons.concat($("undo")).forEach((button) => (button.disabled = true));
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ tab, ...values }),
    }).catch(() => {
      throw new Error("The server does not respond; it has ended. Your answers are saved: start the command again and open its new address.");
    });
    if (answer.status === 403) throw new Error("This page belongs to an earlier run; open the address that the command printed last.");
    const state = await answer.json();
    if (!answer.ok) throw new Error(`Not saved: ${state.error}.`);
    show(state);
  } catch (error) {
    say(error.message);
  } finally {
    busy = false;
    const done = shown === null;
    buttons.forEach((button) => { button.disabled = done; button.classList.remove("pressed"); });
    $("undo").disabled = false;
  }
}

function show(state) {
  const done = Object.values(state.counts).reduce((sum, count) => sum + count, 0);
  $("bar").max = state.total;
  $("bar").value = done;
  $("count").textContent = `${done} of ${state.total}`;
  $("tally").textContent = Object.entries(state.counts).map(([label, count]) => `${count} ${label}`).join(", ");
  $("estimate").textContent = state.estimate;
  say(state.undone ? `Undone. Your answer was “${state.undone}”.` : "", true);
  shown = state.pair;
  $("pair").hidden = shown === null;
  $("end").hidden = shown !== null;
  $("ask").hidden = $("answers").hidden = shown === null;
  if (shown === null) return;
  $("query").textContent = shown.query;
  fill($("candidate"), shown.candidate, $("candidate-id"));
  const [first, ...others] = shown.positives;
  fill($("positive"), first, $("positive-id"));
  $("others").hidden = others.length === 0;
  $("others").open = false;
  $("others").querySelector("summary").textContent = `${others.length} more known positive${others.length > 1 ? "s" : ""}`;
  $("others").querySelector("div").replaceChildren(...others.map((other) => fill(document.createElement("p"), other)));
  window.scrollTo(0, 0);
  $("pair").focus({ preventScroll: true });
}

function fill(element, passage, id = null) {
  if (id !== null) id.textContent = passage.id;
  element.className = "text";
  element.dir = "auto";
  element.replaceChildren(...passage.pieces.map(([text, marked]) => {
    if (!marked) return document.createTextNode(text);
    const mark = document.createElement("mark");
    mark.textContent = text;
    return mark;
  }));
  return element;
}

function say(message, note = false) {
  $("message").textContent = message;
  $("message").className = note ? "note" : "";
}

function answer(label) {
  if (busy || shown === null) return;
  buttons.find((button) => button.dataset.label === label).classList.add("pressed");
  post("/answer", { query_id: shown.query_id, doc_id: shown.candidate.id, label });
}

buttons.forEach((button) => button.addEventListener("click", () => answer(button.dataset.label)));
$("undo").addEventListener("click", () => post("/undo"));
document.addEventListener("keydown", (event) => {
  if (event.repeat) return; // a key held down is one answer
  const undo = event.key.toLowerCase() === "u" || event.key === "Backspace";
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z") post("/undo");
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key in KEYS) answer(KEYS[event.key]);
  else if (undo) post("/undo");
  else return;
  event.preventDefault();
});
post("/next");
