// Filter the table of architectures by name, input and capability.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const name = document.getElementById("architecture-name");
  const input = document.getElementById("architecture-input");
  const capability = document.getElementById("architecture-capability");
  const count = document.getElementById("architecture-count");
  const rows = [...document.querySelectorAll("#architectures tbody tr")];
  const update = () => {
    const words = name.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const { name: own, input: reads, works } = row.dataset;
      const matches =
        own.toLowerCase().includes(words) &&
        (input.value === "" || reads === input.value) &&
        (capability.value === "" || works[Number(capability.value)] === "1");
      row.hidden = !matches;
      shown += matches ? 1 : 0;
    }
    count.textContent = `${shown} of ${rows.length} architectures`;
  };
  for (const element of [name, input, capability]) element.addEventListener("input", update);
  update();
});
