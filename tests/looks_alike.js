// Marks every element that looks like one that is known; the looks that are new.
//
// Colors take most of axe's time, so they are looked at once for all texts that look alike: those whose colors, size and
// classes are the same, and their ancestors' too. A table has many rows of one look, and all pages have one frame.
async ({ within, known }) => {
  const frame = new Promise((done) => requestAnimationFrame(done)); // in which a page answers to a new size
  await Promise.race([frame, new Promise((done) => setTimeout(done, 200))]);
  for (const one of document.getAnimations()) if (one instanceof CSSTransition) one.finish(); // no color is on its way
  const STYLES = ["color", "backgroundColor", "backgroundImage", "opacity", "filter", "fontSize", "fontWeight", "textShadow", "textDecorationLine", "fill", "position"];
  const looks = new Set(known.split(" "));
  const found = [];
  const length = (element) => {
    const own = [...element.childNodes].map((node) => (node.nodeType === 3 ? node.textContent.trim() : "")).join("");
    return Math.min((own || element.value?.toString() || "").length, 2); // axe leaves single characters out
  };
  const idle = (element) => element.matches(":disabled, [aria-disabled=true], [aria-hidden=true]") || element.control?.disabled;
  const hash = (text) => {
    let [high, low] = [0xdeadbeef, 0x41c6ce57];
    for (let place = 0; place < text.length; place++) {
      const code = text.charCodeAt(place);
      high = Math.imul(high ^ code, 2654435761);
      low = Math.imul(low ^ code, 1597334677);
    }
    return (high >>> 0).toString(36) + (low >>> 0).toString(36).padStart(7, "0");
  };
  const mark = (element, above) => {
    const style = getComputedStyle(element);
    const seen = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const said = [above, element.tagName, element.getAttribute("class"), seen, length(element), Boolean(idle(element))];
    const look = hash([...said, ...STYLES.map((name) => style[name])].join("|"));
    element.toggleAttribute("data-looks-alike", looks.has(look));
    if (!looks.has(look)) found.push(look);
    looks.add(look);
    for (const child of element.children) mark(child, look);
  };
  mark(document.querySelector(within ?? "html"), "");
  return found;
}
