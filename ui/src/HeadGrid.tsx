// Layers × heads, colored by how far a head's attention may be read. One cell takes the tab; arrows move.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { css, DARK, LIGHT, step, table } from "./colors";
import { headsPicture } from "./headsPicture";
import { number } from "./shown";
import type { PerHead } from "./summary";
import { TakePicture } from "./TakePicture";

export interface Place {
  layer: number; // 0: all layers
  head: number; // -1: all heads
  color: string;
}

interface Properties {
  title: string; // whose heads
  layers: number[];
  heads: number;
  numbers: Partial<Record<string, PerHead | null>>; // null: can be known, and is not yet
  meaning: (name: string) => string;
  place: Place;
  dark: boolean;
  onChange: (change: Partial<Place> | ((before: Place) => Partial<Place>)) => void;
  children?: ComponentChildren; // what stands below
}

export function HeadGrid({ title, layers, heads, numbers: all, meaning, place, dark, onChange, children }: Properties) {
  const grid = useRef<HTMLTableElement>(null);
  const numbers = all[place.color];
  const known = (numbers ?? []).flat().filter((value): value is number => value !== null);
  const most = Math.max(...known.map(Math.abs), 0);
  const limit = most > 1 ? Math.ceil(most) : 1;
  const name = place.color.replaceAll("_", " ");
  const colors = table(dark ? DARK : LIGHT);
  const columns = Array.from({ length: heads }, (_, head) => head);

  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    onChange((before) => {
      const row = Math.max(0, Math.min(layers.length, (before.layer === 0 ? 0 : layers.indexOf(before.layer) + 1) + move[0]));
      const head = Math.max(-1, Math.min(heads - 1, before.head + move[1]));
      return row === 0 ? { layer: 0, head: -1 } : { layer: layers[row - 1], head };
    });
    requestAnimationFrame(() => grid.current?.querySelector<HTMLElement>("[tabindex='0']")?.focus());
  };

  const cell = (layer: number, head: number, label: string, value?: number | null) => {
    const chosen = place.layer === layer && place.head === head;
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
        style={at === null ? {} : { background: css(colors, at) }}
        onClick={() => onChange({ layer, head })}
      />
    );
  };

  return (
    <section class="heads" aria-labeledby="heads-title">
      <h2 id="heads-title">Heads</h2>
      <label>
        colored by{" "}
        <select value={place.color} onChange={(event) => onChange({ color: event.currentTarget.value })}>
          {Object.keys(all).map((each) => <option value={each}>{each.replaceAll("_", " ")}</option>)}
        </select>
      </label>
      <div class="scroll">
        <table ref={grid} role="grid" aria-label="layers by heads" onKeyDown={onKey}>
          <thead>
            <tr role="row">
              <th scope="col"><span class="unseen">layer</span></th>
              {cell(0, -1, "all layers and heads, averaged")}
              {columns.map((head) => <th scope="col">{head}</th>)}
            </tr>
          </thead>
          <tbody>
            {layers.map((layer, at) => (
              <tr role="row">
                <th scope="row">{layer}</th>
                {cell(layer, -1, `layer ${layer}, heads averaged`)}
                {columns.map((head) => {
                  const value = numbers?.[at]?.[head];
                  const told = Number.isInteger(value) ? String(value) : number(value);
                  return cell(layer, head, `layer ${layer}, head ${head}: ${name} ${told}`, value);
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="legend" aria-hidden="true">
        <div style={{ background: `linear-gradient(to right, ${[256, 320, 384, 448, 512].map((at) => css(colors, at)).join(", ")})` }} />
        <p><span>0</span><span>{limit}</span></p>
      </div>
      <p class="note">{name}: {meaning(place.color)}</p>
      {numbers && <TakePicture name="heads" svg={() => headsPicture({ title, name, layers, heads, numbers, limit, colors, dark })} />}
      {children}
    </section>
  );
}
