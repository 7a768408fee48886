// The choice of one opponent, on top of the filter: the rows of the others leave their lists, so that nothing counts them.
(() => {
  const choice = document.getElementById("opponent");
  if (!choice) return;
  const main = document.querySelector("main");
  const lists = [...document.querySelectorAll(".view.pair")].map((list) => {
    const body = list.querySelector("tbody");
    return { list, body, table: body.parentElement };
  });
  choice.addEventListener("change", () => {
    main.classList.toggle("choosing", Boolean(choice.value));
    for (const { list, body, table } of lists) {
      const wanted = !choice.value || list.dataset.opponent === choice.value;
      list.classList.toggle("elsewhere", !wanted);
      if (wanted) table.append(body);
      else body.remove();
    }
    document.getElementById("outcome").dispatchEvent(new Event("change"));
  });
})();
