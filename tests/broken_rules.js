// The rules of accessibility that a page breaks: each with a place and what is wrong there.
//
// Contrast takes most of the time, so it is looked at once for all texts that look alike: those whose colors, size and
// classes are the same, and their ancestors' too. A table has many rows of one look.
async ({ within, colorsOnly }) => {
  const STYLES = ["color", "backgroundColor", "backgroundImage", "opacity", "filter", "fontSize", "fontWeight", "textShadow", "fill", "position"];
  const looks = new Map();
  const length = (element) => {
    const own = [...element.childNodes].map((node) => (node.nodeType === 3 ? node.textContent.trim() : "")).join("");
    return Math.min((own || element.value?.toString() || "").length, 2); // axe leaves single characters out
  };
  const idle = (element) => element.matches(":disabled, [aria-disabled=true], [aria-hidden=true]") || element.control?.disabled;
  const mark = (element, above) => {
    const style = getComputedStyle(element);
    const seen = element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const said = [above, element.tagName, element.getAttribute("class"), seen, length(element), Boolean(idle(element))];
    const look = [...said, ...STYLES.map((name) => style[name])].join("|");
    element.toggleAttribute("data-looks-alike", looks.has(look));
    if (!looks.has(look)) looks.set(look, looks.size);
    for (const child of element.children) mark(child, looks.get(look));
  };
  const whole = document.querySelector(within ?? "html");
  mark(whole, "");
  axe.configure({ rules: [{ id: "color-contrast", selector: ":not([data-looks-alike])" }] });
  const options = { resultTypes: ["violations"] }; // not all that is right, which takes longer to list
  if (colorsOnly) Object.assign(options, { runOnly: ["color-contrast"], preload: false }); // which reads no style sheets
  const { violations } = await axe.run(whole, options);
  return violations.map(({ id, nodes: [{ html, failureSummary }] }) => [id, html.slice(0, 200), failureSummary]);
}
