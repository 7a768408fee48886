"use strict";
// Opens folded sections that a link leads into, for browsers that do not, and filters the lists of battles.
(() => {
  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  if (location.hash) reveal();

  const form = document.getElementById("filter");
  if (!form) return;
  const find = document.getElementById("find");
  const outcome = document.getElementById("outcome");
  const found = document.getElementById("found");
  const main = document.querySelector("main");
  const lists = [...document.querySelectorAll(".view.pair")];
  const texts = new Map();

  // What a row is searched by: the row itself and, where the battle is on this page, its prompt, answers and judge texts.
  function wordsOf(row) {
    if (texts.has(row)) return texts.get(row);
    const parts = [row.textContent];
    const address = row.querySelector("a").getAttribute("href");
    const mark = address.startsWith("#") ? document.getElementById(address.slice(1)) : null;
    if (mark) {
      const prompt = mark.closest(".prompt");
      parts.push(prompt.querySelector(".question").textContent, mark.parentElement.textContent);
      for (const name of mark.classList) {
        const answer = name === "mark" ? null : prompt.querySelector(".answer." + name);
        if (answer) parts.push(answer.textContent);
      }
    }
    const words = parts.join("\n").toLowerCase();
    texts.set(row, words);
    return words;
  }

  function apply() {
    const wanted = find.value.trim().toLowerCase();
    const kind = outcome.value;
    const active = Boolean(wanted || kind);
    main.classList.toggle("filtering", active);
    let count = 0;
    for (const list of lists) {
      let shown = 0;
      for (const row of list.querySelectorAll("tbody tr")) {
        const fits = (!kind || row.dataset.outcome === kind) && (!wanted || wordsOf(row).includes(wanted));
        row.hidden = active && !fits;
        shown += fits ? 1 : 0;
      }
      list.hidden = active && shown === 0;
      count += shown;
    }
    found.textContent = active ? count + (count === 1 ? " battle" : " battles") : "";
  }

  let waiting = 0;
  find.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 150);
  });
  outcome.addEventListener("change", apply);
  form.hidden = false;
})();
