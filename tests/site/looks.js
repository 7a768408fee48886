// What is wrong with a page on a small screen, as sentences: too wide, too small to read, too small to hit, cut off.
() => {
  const found = [];
  const named = (one) => `${one.tagName.toLowerCase()}.${one.className?.baseVal ?? one.className} “${one.textContent.trim().slice(0, 30)}”`;
  const seen = (one) => one.checkVisibility({visibilityProperty: true, opacityProperty: true}) && one.getBoundingClientRect().width > 1;
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} wide`);
  const edges = (one) => one && [one.getBoundingClientRect().left + parseFloat(getComputedStyle(one).paddingLeft), one.getBoundingClientRect().right - parseFloat(getComputedStyle(one).paddingRight)].map(Math.round).join(" to ");
  for (const part of [".masthead", ".colophon"].map((name) => document.querySelector(name)).filter(Boolean))
    if (edges(part) !== edges(document.querySelector("main"))) found.push(`${part.className} is from ${edges(part)}, the page from ${edges(document.querySelector("main"))}`);
  for (const one of document.querySelectorAll("body *")) {
    const says = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!says || !seen(one) || one.closest(".hidden, .skip, math, [aria-hidden=true]:not(svg)")) continue;
    const style = getComputedStyle(one);
    const drawn = one.ownerSVGElement?.getScreenCTM()?.a ?? 1;
    const size = parseFloat(style.fontSize) * drawn;
    if (size < 11.9) found.push(`${named(one)} is ${size.toFixed(1)} px`);
    if (style.overflow === "hidden" && style.textOverflow !== "ellipsis" && one.scrollWidth > one.clientWidth + 1)
      found.push(`${named(one)} is cut`);
  }
  for (const one of document.querySelectorAll("a[href], button, select, summary, textarea, input:not([type=hidden])")) {
    if (!seen(one) || one.closest(".hidden, .skip")) continue;
    const block = one.closest("p, li, dd, figcaption, caption") ?? one.parentElement;
    const others = [...block.querySelectorAll("a, button, select, option, summary")].map((other) => other.textContent).join("");
    const around = block.textContent.replace(/[\s·,.:;|–—-]/g, "").length - others.replace(/[\s·,.:;|–—-]/g, "").length;
    if (one.tagName === "A" && around > 12 && getComputedStyle(one).display.startsWith("inline") && !one.classList.contains("button")) continue;
    const target = one.labels?.[0] && /checkbox|radio/.test(one.type) ? one.labels[0] : one;
    const box = target.getBoundingClientRect(), own = one.getBoundingClientRect();
    const after = getComputedStyle(one, "::after"), grown = after.position === "absolute" ? parseFloat(after.height) || 0 : 0;
    const high = Math.max(box.height, own.height, grown);
    if (high < 43.5) found.push(`${named(one)} is ${high.toFixed(0)} high`);
    const broad = Math.max(box.width, own.width, after.position === "absolute" ? parseFloat(after.width) || 0 : 0);
    if (broad < 24) found.push(`${named(one)} is ${broad.toFixed(0)} broad`);
  }
  return [...new Set(found)];
}
