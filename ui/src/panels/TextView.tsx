// The text, shaded by the selected row: solid where a weight is certified, hollow where it could be zero. A token selects its row.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Group, groupOf } from "../drawing/grouping";
import type { Pointer } from "../drawing/pointer";
import type { KeyFacts } from "../drawing/row";
import type { Scene } from "../drawing/scene";
import { shadeToken } from "../drawing/shading";
import type { View } from "../view";
import { Marks } from "./Marks";

interface Properties {
  scene: Scene;
  facts: KeyFacts[] | null;
  selected: number | null;
  pointer: Pointer;
  onSelect: (group: Group) => void;
  same: boolean; // whether queries and keys are the same tokens
  view: View;
  answerFrom: number | null; // the position of the first token that the model wrote
}

export function TextView({ scene, facts, selected, pointer, onSelect, same, view, answerFrom }: Properties) {
  const box = useRef<HTMLDivElement>(null);
  const needle = view.find.trim().toLowerCase();

  // Written to the elements directly: hundreds of tokens change at once.
  useEffect(() => {
    const tokens = box.current!.querySelectorAll<HTMLElement>(".token");
    const hidden = view.sink ? null : scene.peak;
    const value = (fact: KeyFacts) => (view.shade === "raw" ? fact.weight : view.shade === "contribution" ? fact.contribution : fact.readable) ?? 0;
    const limit = Math.max(...(facts ?? []).map((fact) => (fact.column === hidden ? 0 : Math.abs(value(fact)))), 1e-9);
    tokens.forEach((token, column) => {
      const fact = facts?.[column];
      shadeToken(token, fact && column !== hidden ? value(fact) : 0, limit, fact ? certainty(fact, view) : null, scene);
      token.classList.toggle("hidden-sink", column === hidden);
    });
  }, [scene, facts, view.shade, view.sink]);

  const held = selected === null || !same ? null : groupOf(scene.columns, scene.rows[selected].members[0]);
  useEffect(() => {
    const token = held === null ? null : box.current!.querySelector<HTMLElement>(`[data-column="${held}"]`);
    token?.classList.add("lit");
    token?.setAttribute("aria-pressed", "true");
    if (token) scrollWithin(box.current!, token);
    return () => { token?.classList.remove("lit"); token?.setAttribute("aria-pressed", "false"); };
  }, [scene.columns, held]);
  useEffect(() => {
    const hit = needle ? box.current!.querySelector<HTMLElement>(".token.hit") : null;
    if (hit) scrollWithin(box.current!, hit);
  }, [needle, scene.columns]);

  const onKey = (event: KeyboardEvent) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const buttons = [...box.current!.querySelectorAll<HTMLElement>("button")];
    const focused = buttons.indexOf(document.activeElement as HTMLElement);
    const next = buttons[Math.max(0, Math.min(buttons.length - 1, focused + move))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const columnOf = (event: Event) => {
    const column = (event.target as HTMLElement).closest<HTMLElement>(".token")?.dataset.column;
    return column === undefined ? null : Number(column);
  };

  // Rendered only when the tokens change, not when a row is selected.
  const flow = useMemo(
    () =>
      scene.columns.map((group, column) => (
        <button
          type="button"
          class={`token ${group.special ? "special" : ""} ${answerFrom !== null && group.members[0] >= answerFrom ? "answer" : ""} ${needle !== "" && group.label.toLowerCase().includes(needle) ? "hit" : ""}`}
          tabIndex={column === 0 ? 0 : -1}
          data-column={column}
          aria-label={`${group.label}, position ${group.members[0]}`}
          aria-pressed="false"
        >
          <bdi>{group.label}</bdi>
        </button>
      )),
    [scene.columns, needle],
  );

  return (
    <div>
    <div
      class="flow" ref={box} role="group" aria-label={same ? "text: select a token to read its row" : "keys"}
      onKeyDown={onKey}
      onMouseOver={(event) => pointer.move({ row: selected, column: columnOf(event) }, event)}
      onMouseLeave={() => pointer.move(null)}
      onClick={(event) => {
        const column = columnOf(event);
        if (same && column !== null) onSelect(scene.columns[column]);
      }}
    >
      {flow}
    </div>
    <Marks certified={!facts?.every((fact) => fact.low === null)} negative={view.shade === "contribution"} framed="the row" written={answerFrom !== null} />
    </div>
  );
}

/** How much of the weight is certified; null: not computed. Readable weight is certified by definition. */
function certainty(fact: KeyFacts, view: View): number | null {
  if (fact.low === null) return null;
  return view.shade === "readable" ? 1 : fact.weight > 0 ? Math.min(fact.low / fact.weight, 1) : 0;
}

/** Scrolls the box, and never the page. */
function scrollWithin(box: HTMLElement, element: HTMLElement): void {
  const [top, bottom] = [element.offsetTop, element.offsetTop + element.offsetHeight];
  if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
}
