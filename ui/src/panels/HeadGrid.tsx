// Layers × heads, colored by a number about each head, or with a small map in each. Tab reaches one cell; arrows move.

import { useEffect, useRef } from "preact/hooks";
import type { Source } from "../data/source";
import type { Category, PerHead, Reading } from "../data/summary";
import { type Thumbnails, useThumbnails } from "../data/useThumbnails";
import { css, DARK, LIGHT, step, table } from "../drawing/colors";
import { formatHeadNumber } from "../drawing/format";
import { headsPicture } from "../drawing/headsPicture";
import type { Change, View } from "../view";
import { HeadFinder } from "./HeadFinder";
import { PictureButtons } from "./PictureButtons";

export interface Selection {
  layer: number; // 0: all layers
  head: number; // -1: all heads
  color: string;
}

interface Properties {
  title: string;
  layers: number[];
  heads: number;
  numbers: Partial<Record<string, PerHead>>
  terms: Record<string, string>; // the meaning of each number
  selection: Selection;
  dark: boolean;
  onChange: (change: Partial<Selection> | ((before: Selection) => Partial<Selection>)) => void;
  categories?: (Category | null)[][] | null; // what most of each head's weight is
  certified?: boolean[][] | null; // whether that is final
  thumbnails?: Thumbnails | null; // small maps of all heads; null: there are none
}

export function HeadGrid({ title, layers, heads, numbers: all, terms, selection, dark, onChange, categories = null, certified = null, thumbnails = null }: Properties) {
  const grid = useRef<HTMLTableElement>(null);
  const numbers = all[selection.color];
  const defined = (numbers ?? []).flat().filter((value): value is number => value !== null);
  const most = Math.max(...defined.map(Math.abs), 0);
  const limit = most > 1 ? Math.ceil(most) : 1;
  const name = selection.color.replaceAll("_", " ");
  const drawn = thumbnails !== null && selection.color === "maps";
  const byCategory = categories !== null && (selection.color === "category" || drawn); // small maps are framed by category
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

  const cell = (layer: number, head: number, label: string, value?: number | null, category: Category | null = null, provisional = false) => {
    const selected = selection.layer === layer && selection.head === head;
    const color = value === null || value === undefined ? null : step(value, limit, 1);
    const strong = color !== null && Math.abs(color - 256) > 140;
    return (
      <td
        role="gridcell"
        tabIndex={selected ? 0 : -1}
        aria-selected={selected}
        aria-label={label}
        title={label}
        class={`${selected ? "selected" : ""} ${provisional ? "provisional" : ""} ${category ? `part ${category}` : ""} ${strong ? "strong" : ""} ${head < 0 ? "mean" : ""}`}
        style={color === null ? {} : { background: css(colors, color) }}
        onClick={() => onChange({ layer, head })}
      >
        {drawn && head >= 0 && <Thumbnail picture={thumbnails(layer, head)} />}
      </td>
    );
  };

  return (
    <section class="heads" aria-labelledby="heads-title">
      <h2 id="heads-title">Heads</h2>
      <label>
        show{" "}
        <select value={selection.color} onChange={(event) => onChange({ color: event.currentTarget.value })}>
          {[...(categories ? ["category"] : []), ...(thumbnails ? ["maps"] : []), ...Object.keys(all)].map((option) => <option value={option}>{option === "maps" ? "small maps" : option.replaceAll("_", " ")}</option>)}
        </select>
      </label>
      <div class="scroll">
        <table ref={grid} class={drawn ? "drawn" : ""} role="grid" aria-label="layers by heads" onKeyDown={onKey}>
          <thead>
            <tr role="row" aria-hidden="true"><th /><th class="axis mean">mean</th><th class="axis" colSpan={heads}>head</th></tr>
            <tr role="row">
              <th scope="col">layer</th>
              {cell(0, -1, "mean over all layers and heads")}
              {columns.map((head) => <th scope="col">{head}</th>)}
            </tr>
          </thead>
          <tbody>
            {layers.map((layer, index) => (
              <tr role="row">
                <th scope="row">{layer}</th>
                {cell(layer, -1, `layer ${layer}, mean over heads`)}
                {columns.map((head) => {
                  const value = numbers?.[index]?.[head];
                  const category = byCategory ? (categories![index][head] ?? null) : null;
                  return cell(layer, head, `layer ${layer}, head ${head}: ${byCategory ? `${category ?? "not read"}${certified !== null && category && !certified[index][head] ? ", before certification" : ""}` : `${name} ${formatHeadNumber(value)}`}`, value, category, byCategory && certified !== null && !certified[index][head]);
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!byCategory && !drawn && <div class="legend" aria-hidden="true">
        <div style={{ background: `linear-gradient(to right, ${[256, 320, 384, 448, 512].map((color) => css(colors, color)).join(", ")})` }} />
        <p><span>0</span><span>{limit}</span></p>
      </div>}
      {drawn ? <p class="note">Raw attention of every head, queries from top to bottom and keys from left to right, each on its own scale{byCategory && "; the frame is the head's category"}.</p>
      : <p class="note"><b>{name}</b>: {terms[selection.color] ?? "mean over the texts of the corpus"}</p>}
      {(numbers || byCategory || drawn) && <PictureButtons name="heads" svg={() => headsPicture({
        title, name: drawn ? "raw attention, each head on its own scale" : name, layers, heads, colors, dark, limit: numbers ? limit : null, categories: byCategory ? categories : null,
        color: (index, head) => { const value = numbers?.[index]?.[head]; return value == null ? null : css(colors, step(value, limit, 1)); },
        thumbnail: drawn ? (index, head) => thumbnails(layers[index], head) : null,
      })} />}
    </section>
  );
}

function Thumbnail({ picture }: { picture: ImageData | null }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (picture) canvas.current!.getContext("2d")!.putImageData(picture, 0, 0);
  }, [picture]);
  return <canvas ref={canvas} width={picture?.width ?? 1} height={picture?.height ?? 1} aria-hidden="true" />;
}

/** The heads of one text, by category or by a number. */
export function TextHeads({ source, reading, view, dark, onChange }: { source: Source; reading: Reading | null; view: View; dark: boolean; onChange: Change }) {
  const { model, queries, layers, heads, terms, numbers, window } = source.summary;
  const thumbnails = useThumbnails(source, window === null && view.color === "maps", dark);
  return (
    <div>
    <HeadGrid
      title={`${model}, ${queries.texts.length} tokens`}
      layers={layers}
      heads={heads}
      numbers={{ ...reading?.numbers, ...numbers }}
      categories={reading?.categories ?? null}
      certified={reading?.certified ?? null}
      thumbnails={window === null ? thumbnails : null}
      terms={terms}
      selection={view}
      dark={dark}
      onChange={onChange as (change: Partial<Selection> | ((before: Selection) => Partial<Selection>)) => void}
    />
    <HeadFinder summary={source.summary} reading={reading} view={view} onChange={onChange} />
    </div>
  );
}
