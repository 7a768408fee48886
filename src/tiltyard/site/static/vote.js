// The vote page, made quicker: the same forms and links, sent in the background, and keys. Without it all still works.

const stage = document.getElementById("stage");
const announce = document.getElementById("announce");
const KEYS = { a: "A", arrowleft: "A", b: "B", arrowright: "B", t: "TIE", x: "BOTH_BAD" };
const SHORT_REST = 120; // pixels
const PATIENCE = 30000; // an answer that loads longer does not keep anybody from voting
const BLINK = 800; // milliseconds in which nobody can have looked at a new pair
let busy = false;
let momentTimer = 0;
let patienceTimer = 0;
let together = false;
let read = new Set();
let impatient = false;
let isNew = false;
let newTimer = 0;
let following = null;
let reasonsTimer = 0;
let ahead = null; // the next item of a review, fetched while this one is being read

document.body.classList.add("scripted");
settle();

stage.addEventListener("submit", (event) => {
  const form = event.target;
  const button = event.submitter;
  event.preventDefault();
  if (button?.getAttribute("aria-disabled") === "true") {
    explain();
    return;
  }
  if (form.matches(".reasons")) return void sendReasons(form);
  const fields = new URLSearchParams(new FormData(form));
  if (button?.name) fields.set(button.name, button.value);
  go(button?.getAttribute("formaction") ?? form.getAttribute("action"), { method: "POST", body: fields });
});

stage.addEventListener("click", (event) => {
  const copy = event.target.closest("button.copy");
  if (copy) return void copyAnswer(copy);
  const link = event.target.closest("a.next");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.getAttribute("href"), {});
});

stage.addEventListener("change", (event) => {
  const box = event.target;
  if (box.id === "together") {
    together = box.checked;
    if (together) follow(stage.querySelector(".answer.a .said"));
  }
  if (box.matches(".expand, [name=show], #together")) look();
  if (box.matches(".reasons [type=checkbox]")) {
    clearTimeout(reasonsTimer);
    reasonsTimer = setTimeout(() => sendReasons(box.form), 900);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target;
  if (target.closest("select, textarea, [contenteditable], audio, video, input:not([type=checkbox])")) return;
  const key = event.key.toLowerCase();
  if ((key in KEYS || "srf".includes(key)) && belongsToAPage(target)) return;
  if (key === "escape") stage.querySelector(".pair:has(.view[data-ran]) .ballot")?.focus({ preventScroll: true });
  if (key.startsWith("arrow") && scrollsSideways(target)) return;
  if ((key === "enter" || key === " ") && target.closest("a, button, summary, label, input")) return;
  if (key === "e" && openBoth()) return;
  const wanted = wantedBy(key, event.shiftKey);
  if (!wanted) return;
  event.preventDefault();
  wanted.click();
});

stage.addEventListener("toggle", (event) => {
  if (event.target.matches(".remark, .cannot") && event.target.open) event.target.querySelector("textarea, input:not([type=hidden])").focus();
}, { capture: true });
stage.addEventListener("tiltyard:view", () => lock());
stage.addEventListener("scroll", (event) => scrolled(event.target), { capture: true, passive: true });
window.addEventListener("resize", () => look(), { passive: true });
let shownAt = location.pathname;
window.addEventListener("popstate", () => location.pathname === shownAt || location.reload()); // a link to #main, as "Skip to the content", stays here

function wantedBy(key, shift) {
  if (key === "f") return stage.querySelector(`.pair .answer.${shift ? "b" : "a"} [data-do="grow"]`);
  if (key === "?") return stage.querySelector("#keys > summary");
  if (key === "s") return stage.querySelector(".skip-pair, .cannot > summary");
  if (key === "c") return stage.querySelector(".remark > summary");
  if (key === "n") return stage.querySelector("a.next");
  if (key === "u") return stage.querySelector("button.undo");
  if (key === "l") return stage.querySelector(".together:not([hidden]) input");
  if (key === "enter" || key === " ") return stage.querySelector(".show-names");
  if (/^[1-9]$/.test(key)) {
    const why = stage.querySelector(".why-vote");
    if (why) why.open = true;
    return why?.querySelector(`#tag-${key}`);
  }
  if (key === "r") return stage.querySelector('.pair [data-do="run-both"]');
  return key in KEYS ? stage.querySelector(`.choices [value="${KEYS[key]}"]`) : null;
}

// Once a page has run, keys may be meant for it, and vote only on a button of the ballot. Escape leads to the ballot and not to a
// button: a game may pause at it, and somebody plays on.
function belongsToAPage(target) {
  return stage.querySelector(".pair .view[data-ran]") !== null && !target.closest(".ballot button");
}

function scrollsSideways(element) {
  const box = element.closest("pre, .sideways, .formula, .text");
  return box !== null && box.scrollWidth > box.clientWidth;
}

async function go(address, options) {
  if (busy) return;
  if (reasonsTimer) sendReasons(stage.querySelector("form.reasons"));
  working(true);
  try {
    const waiting = address === "/vote" ? await ahead : null;
    const answer = await fetch(address, { ...options, credentials: "same-origin", redirect: waiting ? "manual" : "follow" });
    if (answer.type === "opaqueredirect") return show(waiting, waiting.getElementById("stage"), new URL("/", location.href)); // the vote is saved
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

async function lookAhead(address) {
  const answer = await fetch(address, { credentials: "same-origin" }).catch(() => null);
  const page = answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
  return page?.querySelector("#stage .ballot") ? page : null;
}

function show(page, next, address) {
  const loaded = new Map([...stage.querySelectorAll(".view[data-state=ready]")].map((view) => [view.dataset.url, view]));
  fill(stage, next, loaded);
  document.title = page.title;
  document.body.className = page.body.className;
  document.body.classList.add("scripted");
  const here = /^\/(start|vote|skip|undo|reveal)$/.test(address.pathname) ? "/" : address.pathname;
  if (here !== location.pathname) history.pushState(null, "", here);
  shownAt = here;
  window.dispatchEvent(new Event("tiltyard:scroll")); // see views.js
  window.scrollTo(0, 0);
  announce.textContent = stage.querySelector("[data-announce]")?.dataset.announce ?? "";
  settle();
  stage.querySelector("h1")?.focus({ preventScroll: true });
}

// Gives an element the content of another one. Views that are loaded stay where they are: a program would start anew elsewhere.
function fill(old, made, loaded) {
  let at = old.firstChild;
  const removeUntil = (end) => {
    while (at !== end) [at] = [at.nextSibling, at.remove()];
  };
  for (const child of [...made.childNodes]) {
    const views = child.matches?.(".view") ? [child] : [...(child.querySelectorAll?.(".view") ?? [])];
    const kept = views.map((view) => loaded.get(view.dataset.url)).find(Boolean);
    const place = kept && [...old.childNodes].find((each) => each.contains(kept));
    if (!place) {
      old.insertBefore(child, at);
      continue;
    }
    removeUntil(place);
    at = place.nextSibling;
    if (place === kept) continue;
    for (const name of place.getAttributeNames()) place.removeAttribute(name);
    for (const { name, value } of child.attributes) place.setAttribute(name, value);
    fill(place, child, loaded);
  }
  removeUntil(null);
}

// After a vote there is a moment to undo it; then the names are asked for, which makes it final.
function settle() {
  clearTimeout(momentTimer);
  clearTimeout(patienceTimer);
  read = new Set();
  impatient = false;
  clearTimeout(newTimer);
  isNew = stage.querySelector(".ballot") !== null;
  if (isNew) {
    newTimer = setTimeout(() => {
      isNew = false;
      lock();
    }, BLINK);
  }
  look();
  const next = stage.querySelector(".ballot")?.dataset.ahead;
  ahead = next ? lookAhead(next) : null;
  if (stage.querySelector(".ballot") && stage.querySelector(".view")) {
    patienceTimer = setTimeout(() => {
      impatient = true;
      lock();
    }, PATIENCE);
  }
  const moment = stage.querySelector("form.moment");
  if (!moment) return;
  const milliseconds = Number(moment.dataset.seconds) * 1000;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const left = moment.querySelector(".left");
  if (still) left.parentElement.remove();
  else left.animate([{ transform: "scaleX(1)" }, { transform: "scaleX(0)" }], { duration: milliseconds, fill: "forwards" });
  momentTimer = setTimeout(() => showNames(moment), milliseconds);
}

// Long texts: how many words are left below the edge, and which answers were read to their end.

function look() {
  const answers = [...stage.querySelectorAll(".answer .said")];
  for (const box of answers) box.parentElement.classList.remove("almost");
  if (answers.every((box) => left(box) < SHORT_REST)) for (const box of answers) box.parentElement.classList.add("almost"); // not folded for a few lines
  for (const box of stage.querySelectorAll(".said")) measure(box);
  const both = [...stage.querySelectorAll(".answer .said")].filter((box) => left(box) > 0).length === 2;
  const choose = stage.querySelector(".switch"), whole = stage.querySelector(".answers"), bar = stage.querySelector(".bar");
  if (choose?.querySelector("#show-both").checked) choose.hidden = whole.offsetHeight + bar.offsetHeight <= innerHeight; // both fit
  const line = stage.querySelector(".together");
  if (line) {
    line.hidden = !both;
    line.querySelector("input").checked = together;
  }
  lock();
}

function left(box) {
  return box.scrollHeight - box.clientHeight > 4 ? Math.max(0, box.scrollHeight - box.clientHeight) : 0;
}

function measure(box) {
  const owner = box.parentElement;
  const below = left(box) && Math.max(0, box.scrollHeight - box.clientHeight - box.scrollTop);
  const opened = owner.querySelector(":scope > .expand")?.checked ?? false;
  owner.classList.toggle("fits", !opened && left(box) === 0);
  owner.classList.toggle("at-end", below < 12);
  if (below < 12 && box.clientHeight > 0) read.add(owner.id);
  const rest = owner.querySelector(":scope > .expand-label .rest");
  if (rest) rest.textContent = below < 12 ? "Show in full" : moreWords((Number(owner.dataset.words) * below) / box.scrollHeight);
}

function moreWords(number) {
  const step = number >= 1000 ? 100 : number >= 100 ? 10 : 1;
  const words = Math.max(1, Math.round(number / step) * step);
  return `${words.toLocaleString("en")} more ${words === 1 ? "word" : "words"}`;
}

function scrolled(box) {
  if (!(box instanceof Element) || !box.matches(".said")) return;
  if (following === box) following = null;
  else follow(box);
  measure(box);
  lock();
}

function follow(box) {
  const other = together && box?.closest(".answer") && stage.querySelector(`.answer${box.closest(".a") ? ".b" : ".a"} .said`);
  if (!other || !left(box) || !left(other)) return;
  const place = Math.round((box.scrollTop / left(box)) * left(other));
  if (Math.abs(place - other.scrollTop) < 2) return;
  following = other;
  other.scrollTop = place;
  measure(other);
}

function openBoth() {
  const boxes = [...stage.querySelectorAll(".answer:not(.fits) > .expand")];
  if (!boxes.length) return false;
  const open = boxes.some((box) => !box.checked);
  for (const box of boxes) box.checked = open;
  look();
  if (!stage.querySelector(".locked-why:not([hidden])")) announce.textContent = open ? "Both answers are shown in full." : "Both answers are folded.";
  return true;
}

// The ballot is locked until both answers are there, and long ones were read to their end.

function lock() {
  const ballot = stage.querySelector(".ballot");
  if (!ballot) return;
  const why = ballot.querySelector(".locked-why");
  const reason = whyLocked(ballot);
  for (const button of ballot.elements) {
    if (button.type !== "submit") continue;
    const waits = reason && !button.matches(".skip-pair");
    if (waits || isNew) button.setAttribute("aria-disabled", "true"); // a second click on what was here before does not vote
    else button.removeAttribute("aria-disabled");
    if (waits) button.setAttribute("aria-describedby", why.id);
    else button.removeAttribute("aria-describedby");
  }
  ballot.classList.toggle("locked", reason !== "");
  if (why.textContent !== reason) {
    const was = why.textContent;
    why.textContent = reason;
    if (was && !reason) announce.textContent = "You can vote now.";
    else if (reason) announce.textContent = `${announce.textContent.startsWith("New pair") ? `${announce.textContent} ` : ""}${reason}`;
  }
  why.hidden = !reason;
  offerBroken(ballot);
}

function whyLocked(ballot) {
  const waiting = [...stage.querySelectorAll(".answer .view")].filter((view) => isAwaited(view));
  if (waiting.length) {
    const sides = waiting.map((view) => (view.closest(".a") ? "A" : "B")).join(" and ");
    return `${waiting[0].dataset.hint ?? "Both are still loading."} Voting waits for ${sides}.`;
  }
  const least = Number(ballot.dataset.longWords);
  const unread = [...stage.querySelectorAll(".answer")].filter(
    (answer) => least > 0 && Number(answer.dataset.words) >= least && answer.querySelector(".said") && !read.has(answer.id),
  );
  if (!unread.length) return "";
  const sides = unread.map((answer) => (answer.matches(".a") ? "A" : "B"));
  return `Open or scroll to the end of ${sides.length === 2 ? "both answers" : `answer ${sides[0]}`}, then vote.`;
}

// A page to run and a film to play wait for the voter, so their time does not run out.
function isAwaited(view) {
  return view.dataset.state === "loading" && !(impatient && !["html", "audio", "video"].includes(view.dataset.kind));
}

function explain() {
  const reason = stage.querySelector(".locked-why")?.textContent;
  if (!reason) return;
  announce.textContent = "";
  setTimeout(() => (announce.textContent = reason), 50);
}

function offerBroken(ballot) {
  const box = stage.querySelector(".unrendered");
  if (!box) return;
  const failed = [...stage.querySelectorAll(".answer .view")].filter((view) => view.dataset.state === "failed" || (view.dataset.state === "loading" && !isAwaited(view)));
  const sides = failed.map((view) => (view.closest(".a") ? "A" : "B")).join("");
  if (!sides || box.dataset.offered === sides) return;
  box.dataset.offered = sides;
  box.open = true;
  for (const button of box.querySelectorAll("button")) button.classList.toggle("primary", button.value === sides);
}

// Reasons are sent a moment after the last tap, and the page stays as it is.
async function sendReasons(form) {
  clearTimeout(reasonsTimer);
  reasonsTimer = 0;
  if (!form) return;
  const said = form.parentElement.querySelector(".saved");
  try {
    const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin", redirect: "manual", keepalive: true });
    said.textContent = answer.type === "opaqueredirect" ? "Saved. Thank you." : "It could not be saved.";
  } catch {
    said.textContent = "It could not be saved.";
  }
}

async function copyAnswer(button) {
  const text = stage.ownerDocument.createElement("div");
  text.className = "hidden words";
  text.append(...button.closest(".answer").querySelector(".said").cloneNode(true).childNodes);
  for (const math of text.querySelectorAll("math")) math.replaceWith(math.getAttribute("display") === "block" ? `$$${math.getAttribute("alttext")}$$` : `$${math.getAttribute("alttext")}$`);
  document.body.append(text);
  const said = text.innerText.trim();
  text.remove();
  try {
    await navigator.clipboard.writeText(said);
    announce.textContent = "Copied.";
    const label = button.firstChild;
    label.textContent = "Copied";
    setTimeout(() => (label.textContent = "Copy"), 900);
  } catch {
    announce.textContent = "It could not be copied. Select the text and copy it by hand.";
  }
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
