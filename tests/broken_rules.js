// The rules of accessibility that a page breaks: each with a place and what is wrong there.
//
// The looks were marked before, by looks_alike.js. What axe would load ahead, it needs for sounds and films only.
async ({ within, colorsOnly }) => {
  const fresh = ":not([data-looks-alike])";
  axe.configure({
    rules: [
      { id: "color-contrast", selector: fresh },
      { id: "link-in-text-block", selector: `:is(a[href], [role=link])${fresh}` },
    ],
  });
  const media = document.querySelector("audio, video") !== null && !colorsOnly;
  const options = { resultTypes: ["violations"], preload: media }; // not all that is right, which takes longer to list
  if (colorsOnly) options.runOnly = ["color-contrast"];
  const { violations } = await axe.run(document.querySelector(within ?? "html"), options);
  return violations.map(({ id, nodes: [{ html, failureSummary }] }) => [id, html.slice(0, 200), failureSummary]);
}
