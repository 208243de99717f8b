// Layers × heads, coloured by how far a head's attention may be read. One cell takes the tab; arrows move.

import { useRef } from "preact/hooks";
import { css, step, table, DARK, LIGHT } from "./colours";
import { number } from "./shown";
import { COLOURINGS, type Colouring, type Summary } from "./summary";
import type { Change, View } from "./view";

interface Properties {
  summary: Summary;
  view: View;
  dark: boolean;
  onChange: Change;
}

export function HeadGrid({ summary, view, dark, onChange }: Properties) {
  const grid = useRef<HTMLTableElement>(null);
  const numbers = summary.numbers[view.colour];
  const known = (numbers ?? []).flat().filter((value): value is number => value !== null);
  const limit = view.colour === "nullity" ? Math.max(...known, 1) : 1;
  const colours = table(dark ? DARK : LIGHT);
  const heads = Array.from({ length: summary.heads }, (_, head) => head);

  const choose = (layer: number, head: number) => onChange({ layer, head });
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    onChange((before) => {
      const row = Math.max(0, Math.min(summary.layers.length, (before.layer === 0 ? 0 : summary.layers.indexOf(before.layer) + 1) + move[0]));
      const head = Math.max(-1, Math.min(summary.heads - 1, before.head + move[1]));
      return row === 0 ? { layer: 0, head: -1 } : { layer: summary.layers[row - 1], head };
    });
    requestAnimationFrame(() => grid.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus());
  };

  const cell = (layer: number, head: number, label: string, value?: number | null) => {
    const chosen = view.layer === layer && view.head === head;
    const at = value === null || value === undefined ? null : step(value, limit, 1);
    const strong = at !== null && Math.abs(at - 256) > 140;
    return (
      <td
        role="gridcell"
        tabIndex={chosen ? 0 : -1}
        aria-selected={chosen}
        aria-label={label}
        title={label}
        class={`${chosen ? "chosen" : ""} ${strong ? "strong" : ""} ${head < 0 ? "mean" : ""}`}
        style={at === null ? {} : { background: css(colours, at) }}
        onClick={() => choose(layer, head)}
      />
    );
  };

  return (
    <section class="heads" aria-labelledby="heads-title">
      <h2 id="heads-title">Heads</h2>
      <label>
        coloured by{" "}
        <select value={view.colour} onChange={(event) => onChange({ colour: event.currentTarget.value as Colouring })}>
          {Object.keys(COLOURINGS).filter((name) => summary.numbers[name as Colouring]).map((name) => <option value={name}>{name.replace("_", " ")}</option>)}
        </select>
      </label>
      <div class="scroll">
        <table ref={grid} role="grid" aria-label="layers by heads" onKeyDown={onKey}>
          <thead>
            <tr role="row">
              <th scope="col"><span class="unseen">layer</span></th>
              {cell(0, -1, "all layers and heads, averaged")}
              {heads.map((head) => <th scope="col">{head}</th>)}
            </tr>
          </thead>
          <tbody>
            {summary.layers.map((layer, at) => (
              <tr role="row">
                <th scope="row">{layer}</th>
                {cell(layer, -1, `layer ${layer}, heads averaged`)}
                {heads.map((head) => {
                  const value = numbers?.[at]?.[head];
                  const told = view.colour === "nullity" ? String(value ?? "—") : number(value);
                  return cell(layer, head, `layer ${layer}, head ${head}: ${view.colour.replace("_", " ")} ${told}`, value);
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="legend" aria-hidden="true">
        <div style={{ background: `linear-gradient(to right, ${[256, 320, 384, 448, 512].map((at) => css(colours, at)).join(", ")})` }} />
        <p><span>0</span><span>{limit === 1 ? "1" : limit}</span></p>
      </div>
      <p class="note">{COLOURINGS[view.colour]}</p>
    </section>
  );
}
