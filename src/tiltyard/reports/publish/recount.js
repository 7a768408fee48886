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

  // The text of a board's table, line by line, whatever a style sheet does with it: name, places, rating, ends of the interval, counts.
  function seen(board) {
    const figure = (text) => Number(text.trim().replace("−", "-").replaceAll(",", ""));
    return [...document.querySelectorAll(`#${board.anchor} tr`)].slice(1).map((row) => {
      const [name, places = "", rating = "", , range = "", ...counts] = [...row.cells].map((cell) => cell.innerText);
      const ends = range.split(" – ").map((end) => (end.trim() === "…" ? null : figure(end)));
      return { name: name.trim(), places: places.split("–").map(figure), rating: figure(rating), ends, counts: counts.map(figure) };
    });
  }

  // Where what is seen is not what was counted. Ranges are not counted here: they have to hold what was.
  function differences(board, data, found) {
    const plain = (text) => text.replace(/\s+/g, " ").trim();
    const drawn = (text) => text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, (letter) => String.fromCharCode(0x2400 + letter.charCodeAt(0)))
      .replace(/\x7f/g, "\u2421").replace(/[\x80-\x9f]|\p{Surrogate}/gu, "\ufffd");
    const name = (code) => plain(drawn(about.names[code] ?? data.models[code]));
    const order = [...found.rating.keys()].filter((code) => !Number.isNaN(found.rating[code]));
    order.sort((one, other) => found.rating[other] - found.rating[one]);
    const lines = seen(board), wrong = [], left = new Set(order);
    const close = (one, other, by) => Math.abs(one - other) <= by + about.tolerance;
    lines.forEach((line, place) => {
      const code = [...left].find((one) => name(one) === plain(line.name) && close(found.rating[one], line.rating, 0.05));
      if (code === undefined) {
        const same = order.find((one) => name(one) === plain(line.name));
        wrong.push(`${line.name}: this page says ${line.rating}, its battles give ${same === undefined ? "no such model" : found.rating[same].toFixed(3)}`);
        return;
      }
      left.delete(code);
      const rating = found.rating[code];
      const above = order.filter((one) => found.rating[one] > rating + about.tolerance).length;
      const level = order.filter((one) => close(found.rating[one], rating, 0)).length;
      const [best, worst = best] = line.places;
      if (place < above || place >= above + level) wrong.push(`${line.name}: line ${place + 1}, its battles give place ${above + 1}`);
      if (!(best <= above + level && worst > above)) wrong.push(`${line.name}: places ${line.places.join("–")} do not hold place ${above + 1}`);
      const [low, high = low] = line.ends;
      if (!((low === null || low <= rating + 0.5 + about.tolerance) && (high === null || high >= rating - 0.5 - about.tolerance))) {
        wrong.push(`${line.name}: the range ${low ?? "…"} – ${high ?? "…"} does not hold its rating ${rating.toFixed(1)}`);
      }
      const counts = [found.won[code], found.lost[code], found.tied[code]];
      if (counts.some((value, at) => !close(value, line.counts[at + 1], 0.5))) {
        wrong.push(`${line.name}: this page counts ${line.counts.slice(1).join(", ")}, its battles ${counts.map(count).join(", ")}`);
      }
    });
    if (lines.length !== Math.min(order.length, about.shown)) wrong.push(`this page has ${lines.length} models, its battles ${order.length}`);
    return wrong;
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
        wrong.push(...differences(board, data, found));
        models += found.rating.filter((rating) => !Number.isNaN(rating)).length;
        for (const [code, rating] of board.ratings) largest = Math.max(largest, Math.abs(found.rating[code] - rating) || 0);
      }
      if (wrong.length) {
        tell("wrong", "This page is not what its battles say.", el("ul", {}, ...wrong.slice(0, 20).map((line) => el("li", {}, line))));
      } else {
        const exact = largest < 1e-9 ? "less than 0.000000001" : largest.toExponential(1);
        tell("right", `Counted again: ${count(data.rows)} battles, ${count(models)} models: names, order, ratings, wins, losses and ties are as this page has them (largest difference ${exact} points, ${seconds.toFixed(1)} s). Ranges and intervals are not counted here. This code came from the same place as the page, so the independent check is the command above.`);
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
