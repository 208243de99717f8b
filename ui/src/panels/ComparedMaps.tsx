// The map of the selected head, that of another, and their difference, on one scale.

import { useMemo } from "preact/hooks";
import type { Kind } from "../data/maps";
import type { Source } from "../data/source";
import type { Summary } from "../data/summary";
import { useMaps } from "../data/useMaps";
import { align, difference } from "../drawing/alignment";
import { formatPercent, printable } from "../drawing/format";
import { Pointer } from "../drawing/pointer";
import { headName, makeScene, makeSides, type Scene, type Sides } from "../drawing/scene";
import { MAP_CHOICES, type View } from "../view";
import { MapCanvas } from "./MapCanvas";
import type { SectionProperties } from "./Sections";

export function ComparedMaps({ source, view, scene, sides, selected, pointer, dark, onChange, onSelect, other, named }: SectionProperties & { other: Source; named: View["against"] }) {
  const [layer, head] = otherHead(other.summary, view);
  const ours = useMaps(source, view.layer, view.head, 0, null);
  const theirs = useMaps(other, layer, head, 0, null);
  const apart = useMemo(() => new Pointer(), [other]);
  const kinds = (["raw", ...MAP_CHOICES] as Kind[]).filter((kind) => ours.computed?.maps[kind] && theirs.computed?.maps[kind]);
  const kind = kinds.includes(view.comparing) ? view.comparing : kinds[0];
  const scenes = useMemo(() => {
    if (!ours.computed || !theirs.computed || !kind) return null;
    return compared(source, other, ours.computed.maps[kind]!, theirs.computed.maps[kind]!, sides, view, { layer, head }, dark);
  }, [ours.computed, theirs.computed, kind, sides, view.words, view.special, view.gamma, view.sink, dark]);
  const failed = ours.failed ?? theirs.failed;
  if (failed) return <p role="alert" class="alert">{failed}</p>;
  if (!scenes) return <p class="note" role="status">Computing the maps …</p>;
  const { left, right, between, aligned, moved } = scenes;
  const names = { head: "", text: `‘${printable(other.summary.text ?? "").slice(0, 40)}’`, model: printable(other.summary.model) };
  const same = other === source;
  return (
    <>
      {kinds.length > 1 && (
        <label>map <select value={kind} onChange={(event) => onChange({ comparing: event.currentTarget.value as Kind })}>{kinds.map((option) => <option value={option}>{scene.titles[option]}</option>)}</select></label>
      )}
      <p role="status">
        {between
          ? `On average over rows, the two differ in ${formatPercent(moved)} of the weight (half of the sum of absolute differences)${aligned < sides.rows.length ? `; ${aligned} of ${sides.rows.length} tokens correspond` : ""}.`
          : "No token of one text corresponds to one of the other, so there is no difference to show."}
      </p>
      <div class="triple">
        <MapCanvas kind="other" scene={left} selected={selected} pointer={same ? pointer : apart} onSelect={onSelect} />
        <MapCanvas kind="other" scene={right} selected={same ? selected : null} pointer={same ? pointer : apart} onSelect={same ? onSelect : () => undefined} caption={names[named]} />
        {between && <MapCanvas kind="other" scene={between} selected={null} pointer={same ? pointer : apart} onSelect={() => undefined} caption="blue: more in the first; orange: more in the second" />}
      </div>
    </>
  );
}

function compared(source: Source, other: Source, ours: Float32Array, theirs: Float32Array, sides: Sides, view: View, head: { layer: number; head: number }, dark: boolean) {
  const drawn: View = { ...view, from: 0, scale: "separate", sink: true };
  const sidesThere = other === source ? sides : makeSides(other.summary, { ...view, from: 0 });
  const scene = (of: Source, map: Float32Array, at: Sides, title: string, where: { layer: number; head: number }) =>
    makeScene(of.summary, at, { other: map }, 0, { ...drawn, ...where }, dark, { other: title });
  const left = scene(source, ours, sides, headName(view), view);
  const right = scene(other, theirs, sidesThere, headName(head), head);
  const limit = Math.max(left.limits.other, right.limits.other);
  left.limits.other = right.limits.other = limit;
  const keysThere = other.summary.keys ?? other.summary.queries;
  const queries = align(source.summary.queries.texts, other.summary.queries.texts);
  const keys = source.summary.keys === null && other.summary.keys === null ? queries : align((source.summary.keys ?? source.summary.queries).texts, keysThere.texts);
  const kept = (at: Int32Array) => ({ members }: { members: number[] }) => members.every((member) => at[member] >= 0);
  const common: Sides = { rows: sides.rows.filter(kept(queries)), columns: sides.columns.filter(kept(keys)), hidden: [] };
  const between: Scene | null = common.rows.length && common.columns.length
    ? scene(source, difference(ours, theirs, queries, keys, keysThere.texts.length), common, "difference: first − second", view)
    : null;
  const total = between ? between.maps.other!.reduce((sum, value) => sum + Math.abs(value), 0) : 0;
  return { left, right, between, aligned: common.rows.length, moved: between ? total / 2 / common.rows.length : 0 };
}

/** The head to compare with; by default the next one of the same text, or the same one of another text or model. */
export function otherHead(summary: Summary, view: View): [layer: number, head: number] {
  const { layers, heads } = summary;
  const layer = [view.otherLayer, view.layer].find((number) => layers.includes(number)) ?? layers[0];
  const head = [view.otherHead, view.against === "head" ? (view.head + 1) % heads : view.head].find((number) => number >= 0 && number < heads) ?? 0;
  return [layer, head];
}
