// j and k move through rows, brackets through heads and braces through layers; Escape clears the selected row.

import { useEffect } from "preact/hooks";
import type { Summary } from "./data/summary";
import { type Group, groupOf } from "./drawing/grouping";
import { type Change, SHADES } from "./view";

export const KEYS: [string, string][] = [
  ["Tab, arrows", "move through heads and tokens; Enter selects a token's row"],
  ["j k", "next and previous row"], ["[ ]", "previous and next head"], ["{ }", "previous and next layer"], ["Esc", "clear the selected row"],
  ["c", "shade by weight, contribution or readable weight"], ["x", "hide or show the key with most weight"],
  ["w", "whole words"], ["s", "special tokens"], ["/", "find a token"], ["Ctrl+Enter", "run the text"],
];

export function useKeys(summary: Summary, rows: Group[], onChange: Change): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      if (event.key === "Escape" && document.querySelector(":popover-open")) return; // which Escape closes
      const { layers, heads } = summary;
      const within = (value: number, most: number) => Math.max(0, Math.min(most, value));
      const layer = (move: number) =>
        onChange((view) => ({ layer: layers[within(layers.indexOf(view.layer) + move, layers.length - 1)] }));
      const head = (move: number) =>
        onChange((view) => ({ head: within(view.head + move, heads - 1), layer: view.layer || layers[0] }));
      const row = (move: number) =>
        onChange((view) => {
          const selected = groupOf(rows, view.query);
          return rows.length ? { query: rows[within(selected === null ? 0 : selected + move, rows.length - 1)].members[0] } : {};
        });
      const actions: Record<string, () => void> = {
        j: () => row(1), k: () => row(-1),
        "[": () => head(-1), "]": () => head(1), "{": () => layer(-1), "}": () => layer(1),
        Escape: () => onChange({ query: null }),
        c: () => onChange((view) => ({ shade: SHADES[(SHADES.indexOf(view.shade) + 1) % SHADES.length] })),
        x: () => onChange((view) => ({ sink: !view.sink })),
        w: () => onChange((view) => ({ words: !view.words })),
        s: () => onChange((view) => ({ special: !view.special })),
        "/": () => document.getElementById("find")?.focus(),
      };
      if (!actions[event.key]) return;
      event.preventDefault();
      actions[event.key]();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
}
