// Names for controls of the theme that assistive technology would otherwise announce wrongly or not at all.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  // Its visible text, "Search Ctrl K", is its name.
  for (const button of document.querySelectorAll(".search-button-field")) button.removeAttribute("aria-label");
  for (const toggle of document.querySelectorAll("nav summary")) {
    const link = toggle.closest("li")?.querySelector("a");
    toggle.setAttribute("aria-label", `Pages below ${link ? link.textContent.trim() : "this page"}`);
  }
});
