// Answers that are not text: pictures, pages, 3D, sound and film. Each view says how it is by `data-state` (loading, ready,
// failed, stopped) and a `tiltyard:view` event; the ballot waits for both. Code of a kind is loaded when it is needed.

const SILENT_MS = 4000; // a running page that answers no ping for so long is stopped
const STARTING_MS = 10_000;
const PING_MS = 500;
const MOST_MESSAGES = 200; // in one second; a page that sends more is stopped
const MOST_JUMPS = 30; // to places in itself, each an entry in the tab's history, which has room for 50
const RUNNING = "tiltyard:running"; // kept while a page starts, so that one that froze the browser does not do it again

const runs = new Set();
const KINDS = { image: showImage, svg: showImage, html: showPage, voxel: show3d, model3d: show3d, audio: showMedia, video: showMedia };
const later = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) if (isIntersecting) begin(target);
}, { rootMargin: "50% 0px" });

for (const view of document.querySelectorAll(".view")) found(view);
new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const node of addedNodes)
      if (node instanceof Element) for (const view of node.matches(".view") ? [node] : node.querySelectorAll(".view")) found(view);
  for (const run of runs) if (!run.view.isConnected) run.end();
}).observe(document.body, { childList: true, subtree: true });

// A pair to vote on is loaded at once, because both sides are waited for; elsewhere what comes into sight.
function found(view) {
  if (view.dataset.started) return;
  if (view.closest(".pair")) begin(view);
  else later.observe(view);
}

function begin(view) {
  later.unobserve(view);
  if (view.dataset.started) return;
  view.dataset.started = "true";
  KINDS[view.dataset.kind]?.(view);
}

function become(view, state, words = "") {
  view.dataset.state = state;
  view.querySelector(".view-note").textContent = words;
  view.dispatchEvent(new CustomEvent("tiltyard:view", { bubbles: true, detail: { state } }));
}

function ready(view, words) {
  become(view, "ready", words);
}

function fail(view, words) {
  become(view, "failed", words + toSay());
}

function toSay() {
  return document.querySelector(".ballot") ? " You can say below that it does not render." : "";
}

// ---- Pictures

function showImage(view) {
  const image = view.querySelector("img");
  image.decode().then(() => ready(view), () => fail(view, "The picture cannot be shown."));
  view.querySelector(".enlarge").addEventListener("click", () => enlarge(view));
}

// Both pictures of a pair in one place, one after the other at a key: the eye sees what differs.
function enlarge(view) {
  const views = [...(view.closest(".pair") ?? view.parentElement).querySelectorAll(".view img")].map((image) => image.closest(".view"));
  const dialog = document.createElement("dialog");
  dialog.className = "large-view";
  const image = new Image(), name = document.createElement("h2"), other = document.createElement("button"), close = document.createElement("button");
  const show = (chosen) => {
    image.src = chosen.querySelector("img").src;
    image.alt = chosen.querySelector("img").alt;
    image.classList.toggle("drawing", chosen.dataset.kind === "svg");
    name.textContent = chosen.dataset.label;
    dialog.shown = chosen;
    other.textContent = `Show ${views.find((each) => each !== chosen)?.dataset.label ?? ""}`;
  };
  const swap = () => show(views.find((each) => each !== dialog.shown) ?? dialog.shown);
  other.hidden = views.length < 2;
  other.type = close.type = "button";
  close.textContent = "Close";
  other.addEventListener("click", swap);
  image.addEventListener("click", () => dialog.close());
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => {
    event.stopPropagation(); // no vote from here
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") swap();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    dialog.shown.querySelector(".enlarge").focus();
  });
  const bar = document.createElement("div");
  bar.append(name, other, close);
  dialog.append(bar, image);
  dialog.setAttribute("aria-label", "Picture");
  document.body.append(dialog);
  show(view);
  dialog.showModal();
}

// ---- Sound and film

function showMedia(view) {
  const media = view.querySelector("audio, video");
  const wanted = Number(view.dataset.seconds);
  let played = 0, last = null;
  const heard = () => {
    media.removeEventListener("timeupdate", count);
    ready(view);
  };
  const count = () => {
    const now = media.currentTime;
    if (last !== null && !media.seeking && now > last && now - last < 5) played += now - last;
    last = now;
    const enough = Math.min(wanted, Math.max(0, (media.duration || wanted) - 0.3));
    if (played >= enough) heard();
  };
  const broken = () => fail(view, view.dataset.kind === "audio" ? "The sound cannot be played." : "The film cannot be played.");
  media.preload = "metadata"; // elsewhere than in a pair it was left until now
  media.addEventListener("error", broken);
  media.addEventListener("ended", count);
  media.addEventListener("seeking", () => { last = null; });
  if (media.error) broken();
  else if (!wanted) media.readyState >= 1 ? heard() : media.addEventListener("loadedmetadata", heard, { once: true });
  else media.addEventListener("timeupdate", count);
  media.addEventListener("play", () => {
    for (const other of document.querySelectorAll(".view :is(audio, video)")) if (other !== media) other.pause();
  });
}

// ---- 3D

async function show3d(view) {
  try {
    const [tools, bytes] = await Promise.all([import(view.dataset.viewer), received(view)]);
    await tools.mount(view, { bytes, label: view.dataset.label, ready: () => ready(view) });
  } catch (error) {
    fail(view, error.message);
  }
  growing(view);
}

async function received(view) {
  let answer;
  try {
    answer = await fetch(view.dataset.url, { credentials: "same-origin", referrerPolicy: "no-referrer" });
    if (answer.ok) return await answer.arrayBuffer();
  } catch {
    answer = null;
  }
  throw new Error("The answer could not be loaded.");
}

function growing(view) {
  const button = view.querySelector('[data-do="grow"]');
  if (!document.fullscreenEnabled) button.hidden = true;
  button.addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : view.requestFullscreen()));
}

// ---- Where the visitor is

// A page in a frame can be scrolled into sight by a search, a dialog or the focus, and this page with it. What was scrolled
// without a wheel, a touch, a key or a pointer is put back.
const SCROLLING_MS = {
  wheel: 1000, keydown: 1000, pointerup: 1000, resize: 1000, touchmove: 3000, touchend: 3000, pointercancel: 3000,
  pointerdown: Infinity, "tiltyard:scroll": 1000,
};
let scrollsUntil = 0, place = [scrollX, scrollY];
const mayScroll = (kind) => { scrollsUntil = performance.now() + (SCROLLING_MS[kind] ?? 0); };
for (const kind in SCROLLING_MS) addEventListener(kind, () => mayScroll(kind), { capture: true, passive: true });
addEventListener("pointermove", ({ buttons }) => { // no browser tells when a scroll bar is let go
  if (!buttons && scrollsUntil === Infinity) mayScroll("pointerup");
}, { capture: true, passive: true });
addEventListener("scroll", () => {
  if (runs.size && performance.now() > scrollsUntil) scrollTo({ left: place[0], top: place[1], behavior: "instant" });
  else place = [scrollX, scrollY];
}, { passive: true });

// ---- Pages: in a sandboxed frame, after a click, watched

function showPage(view) {
  growing(view);
  view.querySelector('[data-do="run"]').addEventListener("click", () => new Run(view));
  view.querySelector('[data-do="run-both"]')?.addEventListener("click", () => runBoth(view.closest(".pair")));
  const frozen = sessionStorage.getItem(RUNNING) === view.dataset.url;
  sessionStorage.removeItem(RUNNING);
  if (frozen) become(view, "stopped", `This page froze your browser when it was run, so it was stopped.${toSay()}`);
}

// One tap runs both pages; with both running, the key of that button stops them.
function runBoth(pair) {
  const running = [...runs].filter((run) => pair.contains(run.view));
  if (running.length) for (const run of running) run.stopButton.click();
  else for (const view of pair.querySelectorAll('.view[data-kind="html"]')) new Run(view);
}

class Run {
  constructor(view) {
    this.view = view;
    this.heard = this.began = performance.now();
    this.isUp = false;
    this.messages = this.jumps = 0;
    sessionStorage.setItem(RUNNING, view.dataset.url);
    this.frame = document.createElement("iframe");
    this.frame.setAttribute("sandbox", "allow-scripts");
    this.frame.setAttribute("allow", "");
    this.frame.referrerPolicy = "no-referrer";
    this.frame.title = `${view.dataset.label}, running`;
    this.frame.src = view.dataset.url;
    this.frame.part = "page";
    this.frame.addEventListener("load", () => this.loaded());
    this.cover = view.querySelector(".cover");
    this.cover.hidden = true;
    this.host = document.createElement("div"); // what is in a shadow root is not among this window's `frames`: no page finds the other
    this.host.className = "frame";
    this.host.attachShadow({ mode: "open" }).append(this.frame);
    view.querySelector(".screen").append(this.host);
    this.stopButton = view.querySelector('[data-do="stop"]');
    this.stopButton.hidden = false;
    this.stopButton.onclick = () => this.stop(this.isUp ? "ready" : "stopped", "Stopped.");
    this.ear = (event) => event.source === this.frame.contentWindow && this.hear(event.data); // nobody else's messages count
    addEventListener("message", this.ear);
    this.clock = setInterval(() => this.watch(), PING_MS);
    runs.add(this);
    view.dataset.ran = "true"; // from now on its keys are its own: see vote.js
    document.activeElement.blur(); // the button that is hidden now; the page has the focus once it is there
    become(view, "loading", "Starting …");
  }

  hear(message) {
    this.messages++;
    if (this.messages > MOST_MESSAGES) this.stop("stopped", `It flooded this page with messages and was stopped.${toSay()}`);
    else if (message === "tiltyard:alive") this.alive();
  }

  // Only what happened comes through the door, and nothing that the page made up.
  notice(kind) {
    if (kind === "escape") this.leave();
    else if (kind !== "hashchange") mayScroll(kind === "pointerdown" ? "pointerup" : kind); // where it ends may be elsewhere
    else if (++this.jumps > MOST_JUMPS) this.stop("stopped", `It filled the history of this tab and was stopped.${toSay()}`);
  }

  // Escape in the page that has the focus leads out of it. Only a key that was pressed there comes through the door: which of
  // two frames has the focus cannot be seen from here, as Chromium goes on naming the one that had it before.
  leave() {
    if ([...runs].some((run) => run.host === document.activeElement))
      (document.querySelector(".ballot") ?? this.stopButton).focus({ preventScroll: true });
  }

  alive() {
    this.heard = performance.now();
    sessionStorage.removeItem(RUNNING);
    if (this.isUp || !this.isLoaded) return;
    this.isUp = true;
    ready(this.view);
  }

  // A second load is an attempt to go elsewhere: the frame then shows something that is not the answer.
  loaded() {
    if (this.isLoaded) this.stop("stopped", `It tried to leave and was stopped.${toSay()}`);
    else if (document.activeElement === document.body) this.frame.focus({ preventScroll: true });
    this.isLoaded = true;
    const door = new MessageChannel();
    door.port1.onmessage = ({ data }) => this.notice(data);
    this.ping([door.port2]);
  }

  ping(ports = []) {
    this.frame.contentWindow?.postMessage("tiltyard:ping", "*", ports);
  }

  watch() {
    const now = performance.now();
    const late = now - (this.asked ?? now) > 3 * PING_MS; // this page itself was asleep or busy
    this.asked = now;
    this.messages = 0;
    if (document.hidden || late) this.heard = now;
    const patience = this.isUp ? SILENT_MS : STARTING_MS;
    if (now - this.heard > patience) this.silent();
    else this.ping();
  }

  // Frames may share a thread, so when both fall silent neither is to blame before it was run alone.
  silent() {
    const others = [...runs].filter((run) => run !== this && performance.now() - run.heard > 2 * PING_MS);
    if (!others.length) this.stop("stopped", `It stopped responding and was stopped.${toSay()}`);
    else for (const run of [this, ...others]) run.stop("stopped", "One of the two pages stopped responding. Run them one at a time to see which.");
  }

  stop(state, words) {
    this.end();
    become(this.view, state, words);
  }

  end() {
    clearInterval(this.clock);
    removeEventListener("message", this.ear);
    sessionStorage.removeItem(RUNNING);
    runs.delete(this);
    this.host.remove();
    this.stopButton.hidden = true;
    this.cover.hidden = false;
    this.cover.querySelector('[data-do="run"]').textContent = "Run again";
  }
}
