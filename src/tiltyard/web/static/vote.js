// The vote page, made quicker: the same forms and links, sent in the background, and keys. Without it all still works.

const stage = document.getElementById("stage");
const announce = document.getElementById("announce");
const KEYS = { a: "A", arrowleft: "A", b: "B", arrowright: "B", t: "TIE", x: "BOTH_BAD" };
let busy = false;
let momentTimer = 0;
let solver = null;

document.body.classList.add("scripted");
settle();

stage.addEventListener("submit", (event) => {
  const form = event.target;
  const button = event.submitter;
  event.preventDefault();
  if (solver && form.matches(".puzzle") && !form.elements.number.value) {
    announce.textContent = "Still solving the puzzle …";
    return;
  }
  const fields = new URLSearchParams(new FormData(form));
  if (button?.name) fields.set(button.name, button.value);
  go(button?.getAttribute("formaction") ?? form.getAttribute("action"), { method: "POST", body: fields });
});

stage.addEventListener("click", (event) => {
  const link = event.target.closest("a.next");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.getAttribute("href"), {});
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.closest("input, select, textarea, [contenteditable]")) return;
  const key = event.key.toLowerCase();
  if (key.startsWith("arrow") && scrollsSideways(target)) return;
  if ((key === "enter" || key === " ") && target.closest("a, button, summary, label")) return;
  const wanted = wantedBy(key);
  if (!wanted) return;
  event.preventDefault();
  wanted.click();
});

window.addEventListener("popstate", () => location.reload());

function wantedBy(key) {
  if (key === "?") return stage.querySelector("#keys > summary");
  if (key === "s") return stage.querySelector(".skip-pair");
  if (key === "n") return stage.querySelector("a.next");
  if (key === "u") return stage.querySelector("button.undo");
  if (key === "enter" || key === " ") return stage.querySelector(".show-names");
  return key in KEYS ? stage.querySelector(`.choices [value="${KEYS[key]}"]`) : null;
}

function scrollsSideways(element) {
  const box = element.closest("pre, table, .text");
  return box !== null && box.scrollWidth > box.clientWidth;
}

async function go(address, options) {
  if (busy) return;
  working(true);
  try {
    const answer = await fetch(address, { ...options, credentials: "same-origin", redirect: "follow" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.getElementById("stage");
    if (!next) throw new Error("not one of our pages");
    show(page, next, new URL(answer.url));
  } catch {
    announce.textContent = stage.dataset.notSaved;
    complain(stage.dataset.notSaved);
  } finally {
    working(false);
  }
}

function show(page, next, address) {
  stage.replaceChildren(...next.childNodes);
  document.title = page.title;
  document.body.className = page.body.className;
  document.body.classList.add("scripted");
  const here = /^\/(start|vote|skip|undo|reveal|puzzle)$/.test(address.pathname) ? "/" : address.pathname;
  if (here !== location.pathname) history.pushState(null, "", here);
  window.scrollTo(0, 0);
  settle();
  stage.querySelector("h1")?.focus({ preventScroll: true });
  announce.textContent = stage.querySelector("[data-announce]")?.dataset.announce ?? "";
}

// After a vote there is a moment to undo it; then the names are asked for, which makes it final.
function settle() {
  clearTimeout(momentTimer);
  solver?.terminate();
  solver = null;
  const puzzle = stage.querySelector("form.puzzle");
  if (puzzle) solve(puzzle);
  const moment = stage.querySelector("form.moment");
  if (!moment) return;
  const milliseconds = Number(moment.dataset.seconds) * 1000;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const left = moment.querySelector(".left");
  if (still) left.parentElement.remove();
  else left.animate([{ transform: "scaleX(1)" }, { transform: "scaleX(0)" }], { duration: milliseconds, fill: "forwards" });
  momentTimer = setTimeout(() => showNames(moment), milliseconds);
}

// A puzzle is solved in a thread of its own, so that the page stays usable; its form then sends itself.
function solve(form) {
  if (typeof Worker === "undefined") return;
  solver = new Worker(form.dataset.worker);
  solver.onmessage = (event) => {
    form.elements.number.value = event.data;
    form.requestSubmit();
  };
  solver.postMessage({ text: form.elements.puzzle.value, bits: Number(form.dataset.bits) });
}

function showNames(moment) {
  if (busy) momentTimer = setTimeout(() => showNames(moment), 200);
  else if (moment.isConnected) moment.requestSubmit(moment.querySelector(".show-names"));
}

function working(yes) {
  busy = yes;
  stage.setAttribute("aria-busy", String(yes));
  if (yes) announce.textContent = stage.dataset.sending;
}

function complain(words) {
  stage.querySelector(".complaint")?.remove();
  const line = document.createElement("p");
  line.className = "complaint warning";
  line.setAttribute("role", "alert");
  line.textContent = words;
  stage.querySelector(".ballot, .onward, .start form")?.before(line);
}
