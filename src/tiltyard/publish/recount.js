"use strict";
// Counts the board again in the visitor's own browser, and re-rates what a filter leaves. Everything else on the page
// works without it.
(() => {
  const about = JSON.parse(document.getElementById("recount-data").textContent);
  const box = document.getElementById("recount");
  const said = document.getElementById("recount-said");
  const button = document.getElementById("recount-start");
  const chooser = document.getElementById("recount-file");
  const form = document.getElementById("recount-filter");
  const target = document.getElementById("recount-board");
  const LABELS = { "llm-judge": "language models", human: "people" };
  const NAMES = { source: "decided by", judge_model: "judge", category: "category", language: "language" };
  let worker = null, loaded = null, number = 0;
  const waiting = new Map();

  const el = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const count = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 1 });

  function ask(message, transfer = []) {
    if (!worker) {
      const code = document.getElementById("recount-worker").textContent;
      worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => {
        waiting.get(data.id)(data);
        waiting.delete(data.id);
      };
    }
    const id = ++number;
    return new Promise((resolve) => {
      waiting.set(id, resolve);
      worker.postMessage({ id, ...message }, transfer);
    });
  }

  function tell(kind, ...parts) {
    said.className = kind;
    said.replaceChildren(...parts);
  }

  // A page that was opened as a file may not read the files beside it: then its reader chooses the file.
  async function load() {
    if (loaded) return loaded;
    let buffer = null;
    if (chooser.files.length) {
      buffer = await chooser.files[0].arrayBuffer();
    } else if (location.protocol.startsWith("http")) {
      try {
        const answer = await fetch(about.file);
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        buffer = await answer.arrayBuffer();
      } catch (error) {
        tell("wrong", `${about.file} cannot be read: ${error.message}.`);
        return null;
      }
    }
    if (!buffer) {
      chooser.closest("label").hidden = false;
      tell("", `Choose ${about.file} in this folder: a page that was opened as a file may not read it by itself.`);
      return null;
    }
    tell("", "Reading the battles …");
    // Browsers compute hashes on secure pages only.
    const digest = window.crypto?.subtle ? await crypto.subtle.digest("SHA-256", buffer) : null;
    const found = await ask({ kind: "load", buffer }, [buffer]);
    if (found.failed) {
      tell("wrong", `${about.file}: ${found.failed}.`);
      return null;
    }
    const hex = digest && Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
    loaded = { ...found, sha256: hex };
    return loaded;
  }

  // What the page shows for a model: the exact value behind the rounded figure.
  function shown(board, code) {
    const name = document.querySelector(`#${board.anchor} [data-code="${code}"]`);
    return name ? Number(name.closest("tr").querySelector("td b data").value) : null;
  }

  async function verify() {
    button.disabled = true;
    try {
      const data = await load();
      if (!data) return;
      const wrong = [];
      if (data.sha256 && data.sha256 !== about.sha256) wrong.push(`${about.file} is not the file that was published: its hash is ${data.sha256}`);
      let largest = 0, seconds = data.seconds, models = 0;
      for (const board of about.boards) {
        tell("", `Counting ${count(data.rows)} battles …`);
        const found = await ask({ kind: "rate", rules: about.rules, filter: { texts: board.filter } });
        if (found.failed) {
          wrong.push(found.failed);
          continue;
        }
        seconds += found.seconds;
        const published = new Map(board.ratings);
        data.models.forEach((model, code) => {
          const counted = found.rating[code];
          if (!published.has(code) && Number.isNaN(counted)) return;
          models += 1;
          const cell = shown(board, code);
          const differences = [counted - published.get(code), cell === null ? 0 : counted - cell].map(Math.abs);
          const difference = Math.max(...differences);
          if (!(difference <= about.tolerance)) {
            wrong.push(`${model}: this page says ${cell ?? published.get(code) ?? "nothing"}, its battles give ${counted.toFixed(3)}`);
          } else largest = Math.max(largest, difference);
        });
      }
      if (wrong.length) {
        tell("wrong", "This page is not what its battles say.", el("ul", {}, ...wrong.slice(0, 20).map((line) => el("li", {}, line))));
      } else {
        const exact = largest < 1e-9 ? "less than 0.000000001" : largest.toExponential(1);
        tell("right", `Counted again: ${count(data.rows)} battles, ${count(models)} ratings, all as on this page (largest difference ${exact} points, ${seconds.toFixed(1)} s in your browser).`);
        box.dataset.largest = String(largest);
      }
      box.dataset.seconds = String(seconds);
      offerFilters(data);
    } finally {
      button.disabled = false;
    }
  }

  const day = (number) => new Date(number * 86400000).toISOString().slice(0, 10);

  function offerFilters(data) {
    if (form.childElementCount) return;
    if (about.boards.length > 1) form.append(choice("dimension", about.boards.map((board) => board.filter.dimension), "dimension", false));
    for (const [name, labels] of data.columns) {
      if (!NAMES[name] || labels.length < 2) continue;
      form.append(choice(name, labels, NAMES[name], true));
    }
    if (data.days && data.days[0] < data.days[1]) {
      for (const [end, words] of [["from", "from"], ["until", "until"]]) {
        const limits = { type: "date", name: end, min: day(data.days[0]), max: day(data.days[1]) };
        form.append(el("label", {}, `${words} `, el("input", limits)));
      }
    }
    if (!form.childElementCount) return;
    form.append(el("button", { type: "reset" }, "All battles"));
    form.hidden = false;
  }

  function choice(name, labels, words, any) {
    const options = labels.map((label) => {
      const option = el("option", {}, name === "source" ? LABELS[label] || label : label);
      option.value = label;
      return option;
    });
    const first = el("option", { value: "" }, "any");
    return el("label", {}, `${words} `, el("select", { name }, ...(any ? [first] : []), ...options));
  }

  function asked() {
    const values = Object.fromEntries(new FormData(form));
    const { from, until, ...rest } = values;
    const texts = Object.fromEntries(Object.entries(rest).filter(([, value]) => value));
    const number = (text) => (text ? Math.floor(Date.parse(`${text}T00:00:00Z`) / 86400000) : null);
    return { texts, from: number(from), until: number(until) };
  }

  let latest = 0;
  async function filtered() {
    const turn = ++latest;
    const filter = asked();
    const board = about.boards.find((one) => !one.filter.dimension || one.filter.dimension === filter.texts.dimension);
    const free = Object.keys(filter.texts).some((name) => name !== "dimension") || filter.from !== null || filter.until !== null;
    if (!free && about.boards.length === 1) {
      target.replaceChildren();
      return;
    }
    const found = await ask({ kind: "rate", rules: about.rules, filter });
    if (turn !== latest) return;
    if (found.failed) target.replaceChildren(el("p", { class: "note" }, `Cannot be rated: ${found.failed}.`));
    else target.replaceChildren(...drawn(found, board, filter));
  }

  function drawn(found, board, filter) {
    const before = new Map(board ? board.ratings : []);
    const codes = [...found.rating.keys()].filter((code) => !Number.isNaN(found.rating[code]));
    codes.sort((one, other) => found.rating[other] - found.rating[one]);
    const head = ["model", "rank", "rating", "change", "battles", "won", "lost", "tied"];
    const rows = codes.slice(0, 500).map((code, place) => {
      const change = before.has(code) ? found.rating[code] - before.get(code) : null;
      const won = found.won[code], lost = found.lost[code], tied = found.tied[code];
      const rating = el("data", { value: String(found.rating[code]) }, found.rating[code].toFixed(1).replace("-", "−"));
      const moved = change === null ? "–" : `${change < 0 ? "−" : "+"}${Math.abs(change).toFixed(0)}`;
      const mark = found.loose.includes(code) ? " †" : "";
      return el("tr", { "data-model": loaded.models[code] },
        el("th", { scope: "row" }, el("bdi", {}, loaded.models[code]), mark),
        el("td", { class: "num" }, String(place + 1)),
        el("td", { class: "num" }, el("b", {}, rating)),
        el("td", { class: "num" }, moved),
        ...[won + lost + tied, won, lost, tied].map((value) => el("td", { class: "num" }, count(value))));
    });
    const notes = [
      `${count(found.battles)} battles, ${count(codes.length)} models, rated in your browser in ${found.seconds.toFixed(1)} s. Ranks are by rating alone: a part of the battles says less, and the intervals are wider than those above.`,
      `The same with intervals: ${command(filter)}`,
      ...found.remarks,
    ];
    if (codes.length > 500) notes.push("The first 500 are shown.");
    if (found.loose.length) notes.push("† unbeaten or winless in these battles; kept finite by half a win and half a loss.");
    if (found.outside.length) notes.push(`Not rated, never met the others: ${found.outside.map((code) => loaded.models[code]).join(", ")}.`);
    const table = el("table", {}, el("caption", {}, "Ratings of the chosen battles"),
      el("thead", {}, el("tr", {}, ...head.map((word, place) => el("th", { scope: "col", class: place ? "num" : null }, word)))),
      el("tbody", {}, ...rows));
    return [
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Ratings of the chosen battles" }, table),
      el("ul", { class: "note" }, ...notes.map((note) => el("li", {}, note))),
    ];
  }

  function command(filter) {
    const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
    const terms = Object.entries(filter.texts).map(([name, value]) => `${name} = ${quoted(value)}`);
    if (filter.from !== null) terms.push(`timestamp >= ${filter.from * 86400}`);
    if (filter.until !== null) terms.push(`timestamp < ${(filter.until + 1) * 86400}`);
    const where = terms.join(" AND ").replace(/["\\$`]/g, "\\$&");
    return `tiltyard rate battles.parquet --where "${where}"${about.options}`;
  }

  button.addEventListener("click", verify);
  chooser.addEventListener("change", verify);
  form.addEventListener("change", filtered);
  form.addEventListener("reset", () => setTimeout(filtered));
  form.addEventListener("submit", (event) => event.preventDefault());
  box.hidden = false;
})();
