// The leaderboard without waiting: the same search, filters and order that the server answers, done in the page.
// Every step is written to the address, so that a view can be shared and the page works the same without this file.

const table = document.querySelector("[data-board]");
const form = document.querySelector(".filters");
if (table && form) begin(table, form);

function begin(table, form) {
  const body = table.tBodies[0];
  const heads = [...table.querySelectorAll("[data-sort]")];
  const said = document.querySelector("[data-shown]");
  const all = [...body.rows];
  const asked = new URLSearchParams(location.search);
  const filtered = ["q", "provider", "licence", "stability"].some((name) => asked.get(name));
  document.documentElement.classList.add("scripted");
  // Rows that the server left out are not here: a search that widens has to ask it again.
  let whole = !filtered;

  form.addEventListener("input", (event) => {
    const field = event.target;
    if (field.type === "checkbox") return;
    if (field.name === "sort") sortAs(field.value || "rank");
    else if ("reload" in field.dataset) location.assign(address(new FormData(form)));
    else apply();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.submitter && "reload" in event.submitter.dataset) location.assign(address(new FormData(form)));
    else apply();
  });
  for (const head of heads) {
    head.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
      event.preventDefault();
      sortBy(head);
    });
  }

  function apply() {
    const fields = new FormData(form);
    if (!whole) {
      location.assign(address(fields));
      return;
    }
    let shown = 0;
    for (const row of all) {
      row.hidden = !answers(row, fields);
      if (!row.hidden) shown += 1;
    }
    tell(shown);
    remember(fields);
  }

  function answers(row, fields) {
    const words = fold(fields.get("q") ?? "").split(/\s+/u).filter(Boolean);
    const text = fold(row.dataset.find);
    return (
      words.every((word) => text.includes(word)) &&
      ["provider", "licence", "stability"].every((name) => {
        const wanted = fields.get(name) ?? "";
        return !wanted || fold(row.dataset[name]) === fold(wanted);
      })
    );
  }

  function sortAs(column) {
    const head = heads.find((one) => one.dataset.sort === column);
    head.closest("th").removeAttribute("aria-sort"); // its own order first, as for a click on another column
    sortBy(head);
  }

  function sortBy(head) {
    const column = head.dataset.sort;
    const [next, short] = nextOrder(head);
    for (const other of heads) other.closest("th").removeAttribute("aria-sort");
    head.closest("th").setAttribute("aria-sort", next);
    const sign = next === "descending" ? -1 : 1;
    const rows = all.map((row) => [row, row.dataset[column], Number(row.dataset.rank)]);
    rows.sort(([, a, i], [, b, j]) => {
      if (a === "" || b === "") return (a === "") - (b === "") || i - j;
      const order = column === "model" || column === "licence" ? compareText(a, b) : Number(a) - Number(b);
      return sign * order || i - j;
    });
    body.append(...rows.map(([row]) => row));
    keep("sort", column);
    keep("direction", short);
    remember(new FormData(form));
  }

  // The order that a click on this head asks for: its own first, then the other one. Short: as the address says it.
  function nextOrder(head) {
    const first = head.dataset.first === "desc" ? "descending" : "ascending";
    const now = head.closest("th").getAttribute("aria-sort");
    const next = now ? (now === "descending" ? "ascending" : "descending") : first;
    return [next, next === first ? "" : next === "descending" ? "desc" : "asc"];
  }

  function keep(name, value) {
    let field = form.elements.namedItem(name);
    if (!field) {
      field = Object.assign(document.createElement("input"), { type: "hidden", name });
      form.append(field);
    }
    field.value = value;
  }

  function remember(fields) {
    history.replaceState(null, "", address(fields));
    const query = location.search;
    for (const link of document.querySelectorAll("[data-download], [data-permalink]")) {
      link.href = link.pathname + query;
    }
    for (const head of heads) {
      const asked = new URLSearchParams(query);
      asked.set("sort", head.dataset.sort);
      asked.set("direction", nextOrder(head)[1]);
      if (!asked.get("direction")) asked.delete("direction");
      head.href = `${location.pathname}?${asked}`;
    }
  }

  function address(fields) {
    const columns = fields.getAll("columns");
    const kept = [...fields].filter(([name, value]) => value && name !== "columns");
    if (columns.length && columnsChanged(columns)) {
      const chosen = columns.filter((name) => name !== "none");
      kept.push(["columns", chosen.length ? chosen.join(",") : "none"]);
    }
    const query = new URLSearchParams(kept).toString().replaceAll("%2C", ",");
    return location.pathname + (query ? `?${query}` : "");
  }

  // The policy's columns need not be said; the server says which those are.
  function columnsChanged(columns) {
    const chosen = columns.filter((name) => name !== "none").join(",");
    return chosen !== table.dataset.columns;
  }

  function tell(shown) {
    said.textContent = said.dataset.shown.replace("{shown}", shown).replace("{all}", all.length);
  }
}

function fold(text) {
  return text.toLocaleLowerCase();
}

function compareText(a, b) {
  const [x, y] = [fold(a), fold(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}
