// The search: an index that the build wrote, loaded when someone first looks for something. Nothing leaves the page.
(() => {
  const base = document.currentScript.dataset.base;
  const form = document.querySelector(".search");
  const input = form.querySelector("input");
  const said = form.querySelector(".said");
  const list = form.querySelector(".found");
  const SHOWN = 12;
  form.hidden = false;

  const fold = (text) => text.toLowerCase().normalize("NFD").replace(/\p{M}/gu, "");
  let sections = null;

  const load = () => {
    if (sections !== null) return;
    sections = [];
    const script = document.createElement("script");
    script.src = `${base}/assets/search-index.js`;
    script.onload = () => {
      sections = window.manualIndex.map((one) => ({ ...one, title: fold(`${one.page} ${one.heading}`), words: fold(one.text) }));
      look();
    };
    document.head.append(script);
  };

  // A section is found when every word of the query begins a word in it; words in headings count most.
  const score = (section, words) => {
    let total = 0;
    for (const word of words) {
      const begins = new RegExp(`(^|[^\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "gu");
      const inTitle = section.title.match(begins)?.length ?? 0;
      const inText = section.words.match(begins)?.length ?? 0;
      if (!inTitle && !inText) return 0;
      total += 12 * Math.min(inTitle, 2) + Math.min(inText, 6);
    }
    return total;
  };

  const excerpt = (section, word) => {
    const at = Math.max(0, section.words.indexOf(word));
    const from = at < 50 ? 0 : section.text.indexOf(" ", at - 50) + 1;
    return (from ? "… " : "") + section.text.slice(from, from + 140) + (section.text.length > from + 140 ? " …" : "");
  };

  const entry = (section, word) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${base}/${section.url}`;
    link.append(section.heading && section.heading !== section.page ? `${section.page}: ${section.heading}` : section.page);
    const text = document.createElement("small");
    text.append(excerpt(section, word));
    link.append(text);
    item.append(link);
    return item;
  };

  const look = () => {
    const words = fold(input.value).split(/\s+/).filter(Boolean);
    list.replaceChildren();
    list.hidden = words.length === 0 || sections === null;
    if (list.hidden) { said.textContent = ""; return; }
    const found = sections
      .map((section) => [score(section, words), section])
      .filter(([points]) => points > 0)
      .sort((one, other) => other[0] - one[0]);
    said.textContent = found.length === 1 ? "1 place found" : `${found.length} places found`;
    list.append(...found.slice(0, SHOWN).map(([, section]) => entry(section, words[0])));
    if (found.length === 0) {
      const none = document.createElement("li");
      none.className = "nothing";
      none.textContent = "Nothing found. Try fewer or shorter words.";
      list.append(none);
    }
  };

  input.addEventListener("focus", load);
  input.addEventListener("input", () => { load(); look(); });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    list.querySelector("a")?.click();
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); input.focus(); }
    if (event.key === "Escape" && form.contains(event.target)) { input.value = ""; look(); input.focus(); }
  });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) list.hidden = true; });
})();
