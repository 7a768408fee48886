"use strict";
// The grid of prompts × models: sorted by any column, filtered, in portions. Without this it is a plain, whole table.
(() => {
  const PORTION = 50;

  // What a cell is sorted by: wins minus losses, then the mean result, or the change; both bad is even. A cell without a
  // battle is null: always last.
  function keyOf(cell) {
    if (cell.classList.contains("none")) return null;
    const below = cell.querySelector("small");
    const counts = below ? below.textContent.replaceAll(",", "").split("–").map(parseFloat) : [];
    const above = below ? cell.textContent.slice(0, cell.textContent.length - below.textContent.length) : cell.textContent;
    const shown = above.replaceAll("−", "-").match(/[-+]?\d+/);
    return [counts.length === 3 ? counts[0] - counts[1] : 0, shown ? Number(shown[0]) : 50];
  }

  function compare(a, b, turn) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "string") return turn * a.localeCompare(b);
    return turn * (a[0] - b[0] || a[1] - b[1]);
  }

  function setUp(box) {
    const table = box.querySelector("table");
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    const form = box.querySelector(".filter");
    const find = form.querySelector("input");
    const category = form.querySelector(".category");
    const losses = form.querySelector(".losses");
    const said = form.querySelector("output");
    const rest = box.querySelector(".rest");
    const rows = [...body.rows, ...(rest ? rest.querySelector("tbody").rows : [])].map((row) => ({ row, keys: new Map(), words: null }));
    if (rest) rest.remove();
    let order = rows;
    let limit = PORTION;

    // A row is searched by itself and, where its answers are on this page, by these and the judge's words.
    function wordsOf(one) {
      if (one.words !== null) return one.words;
      const parts = [one.row.cells[0].textContent];
      const way = one.row.querySelector("th a");
      const address = way ? way.getAttribute("href") : "";
      const view = address.startsWith("#") ? document.getElementById(address.slice(1)) : null;
      if (view) parts.push((view.closest(".view") || view).textContent);
      one.words = parts.join("\n").toLowerCase();
      return one.words;
    }

    function fits(one) {
      const kind = one.row.querySelector(".cat");
      if (category && category.value && (!kind || kind.textContent !== category.value)) return false;
      if (losses && losses.value && !/\bg[012]\b/.test(one.row.cells[losses.value].className)) return false;
      const wanted = find.value.trim().toLowerCase();
      return !wanted || wordsOf(one).includes(wanted);
    }

    const more = document.createElement("p");
    more.className = "more";
    const next = document.createElement("button");
    const all = document.createElement("button");
    for (const button of [next, all]) {
      button.type = "button";
      more.append(button);
    }
    table.parentElement.after(more);

    function show() {
      const fitting = order.filter(fits);
      body.replaceChildren(...fitting.slice(0, limit).map((one) => one.row));
      const number = (n) => n.toLocaleString("en-US");
      const shown = Math.min(limit, fitting.length);
      const of = fitting.length === rows.length ? number(rows.length) : number(fitting.length) + " of " + number(rows.length);
      said.textContent = of + (rows.length === 1 ? " prompt" : " prompts") + (shown < fitting.length ? ", " + number(shown) + " shown" : "");
      more.hidden = shown === fitting.length;
      next.textContent = "Show " + number(Math.min(PORTION, fitting.length - shown)) + " more";
      all.textContent = "Show all " + number(fitting.length);
    }

    function sortBy(place) {
      const head = heads[place];
      const turn = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turn === 1 ? "ascending" : "descending");
      for (const one of rows) {
        if (!one.keys.has(place)) {
          const cell = one.row.cells[place];
          one.keys.set(place, place ? keyOf(cell) : cell.textContent.toLowerCase());
        }
      }
      order = [...rows].sort((a, b) => compare(a.keys.get(place), b.keys.get(place), turn));
      show();
      table.parentElement.scrollTop = 0;
    }

    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.title = place ? "Sort by losses, then by wins" : "Sort by prompt";
      head.append(button);
      button.addEventListener("click", () => sortBy(place));
    });
    let waiting = 0;
    const again = () => {
      limit = PORTION;
      show();
    };
    find.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(again, 150);
    });
    for (const choice of [category, losses]) if (choice) choice.addEventListener("change", again);
    const extend = (to) => {
      const before = body.rows.length;
      limit = to;
      show();
      const way = body.rows[before] && body.rows[before].querySelector("a, summary");
      (way || table.parentElement).focus();
    };
    next.addEventListener("click", () => extend(limit + PORTION));
    all.addEventListener("click", () => extend(rows.length));
    form.hidden = false;
    show();
  }

  for (const box of document.querySelectorAll(".results")) setUp(box);
})();
