// The view of one text: heads, maps, tokens, the row that is looked at.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Controls } from "./Controls";
import { Exports } from "./Exports";
import { type Group, groupOf, groupTokens } from "./grouping";
import { MapCanvas } from "./MapCanvas";
import { Pointer } from "./pointer";
import { OriginsPanel } from "./OriginsPanel";
import { Readout } from "./Readout";
import { RowTable } from "./RowTable";
import { makeScene, makeSides, placeName } from "./scene";
import { number } from "./shown";
import type { Source } from "./source";
import type { Certificate } from "./summary";
import { TextBars } from "./TextBars";
import { TextHeads } from "./TextHeads";
import { useMaps } from "./useMaps";
import { Verdict } from "./Verdict";
import type { Change, View } from "./view";

interface Properties {
  source: Source;
  view: View;
  dark: boolean;
  onChange: Change;
}

export function Explorer({ source, view, dark, onChange }: Properties) {
  const { summary } = source;
  const pointer = useMemo(() => new Pointer(), [source]);
  const { made, failed } = useMaps(source, view.layer, view.head, view.from);
  const from = made?.from ?? view.from;
  const sides = useMemo(() => makeSides(summary, { words: view.words, special: view.special, from }), [summary, view.words, view.special, from]);
  const scene = useMemo(
    () => made && makeScene(summary, sides, made.maps, made.error, { ...view, layer: made.layer, head: made.head, from: made.from }, dark),
    [made, summary, sides, view.gamma, view.scale, dark],
  );
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(place.current?.getBoundingClientRect().width ?? 0));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);

  const [known, setKnown] = useState<Certificate[]>(summary.certificates);
  const held = scene ? groupOf(scene.rows, view.query) : null;
  const hold = useCallback(
    (group: Group) => onChange((before) => ({ query: before.query !== null && group.members.includes(before.query) ? null : group.members[0] })),
    [onChange],
  );
  const lock = useCallback((row: number) => hold(scene!.rows[row]), [scene, hold]);
  const every = useMemo(() => groupTokens(summary.queries, view.words).filter((group) => view.special || !group.special), [summary, view.words, view.special]);
  useKeys(source, every, onChange);

  const numbers = summary.numbers;
  const at = summary.layers.indexOf(view.layer);
  const told =
    at >= 0 && view.head >= 0
      ? `null mass ${number(numbers.null_mass?.[at][view.head])}, correlation ${number(numbers.correlation?.[at][view.head])}, nullity ${numbers.nullity?.[at][view.head] ?? "—"}`
      : "averaged";
  const kinds = scene?.kinds.filter((kind) => view.map === "all" || view.map === kind) ?? [];
  // Borders and gaps as in the style.
  const room = view.map === "all" ? (width - 24 * (kinds.length - 1)) / Math.max(kinds.length, 1) : width;
  const size = Math.max(160, Math.min(Math.floor(room) - 2, view.map === "all" ? 520 : 900));
  const needle = view.find.trim().toLowerCase();
  const found = needle && scene ? scene.columns.filter((group) => group.label.toLowerCase().includes(needle)).length : 0;

  return (
    <div class="explorer">
      <TextHeads source={source} view={view} dark={dark} onChange={onChange} />
      <div class="main" ref={place}>
        <h2 class="place">{placeName(view)[0].toUpperCase() + placeName(view).slice(1)} <small>{told}</small></h2>
        <Controls summary={summary} view={view} found={found} onChange={onChange} />
        {failed && <p role="alert" class="alert">{failed}</p>}
        {scene && width > 0 && (
          <>
            <div class="maps">
              {kinds.map((kind) => (
                <MapCanvas
                  key={kind}
                  kind={kind}
                  scene={scene}
                  size={size}
                  locked={held}
                  pointer={pointer}
                  onLock={lock}
                  enlarged={view.map === kind}
                  onEnlarge={() => onChange({ map: view.map === kind ? "all" : kind })}
                />
              ))}
            </div>
            <Readout scene={scene} pointer={pointer} />
            <section aria-label="tokens">
              <TextBars scene={scene} locked={held} pointer={pointer} onHold={hold} same={summary.keys === null} find={view.find} />
              {summary.keys !== null && <QueryList source={source} view={view} onChange={onChange} />}
            </section>
            <div class="row">
              <section aria-label="the row"><RowTable scene={scene} locked={held} pointer={pointer} /></section>
              {view.query !== null && view.head >= 0 && view.layer !== 0 && summary.window === null && (
                <Verdict
                  key={`${view.layer} ${view.head} ${view.query}`}
                  source={source}
                  layer={view.layer}
                  head={view.head}
                  query={view.query}
                  known={known}
                  onKnown={(found) => setKnown((before) => [found, ...before.filter((each) => !sameRow(each, found))])}
                />
              )}
            </div>
            {view.query !== null && summary.keys === null && (
              <OriginsPanel source={source} token={view.query} dark={dark} />
            )}
            <Exports summary={summary} scene={scene} held={held} />
          </>
        )}
      </div>
    </div>
  );
}

function sameRow(one: Certificate, other: Certificate): boolean {
  return one.layer === other.layer && one.head === other.head && one.query === other.query;
}

/** Rows of attention from other tokens than it goes to, as a decoder's to an encoder. */
function QueryList({ source, view, onChange }: { source: Source; view: View; onChange: (change: Partial<View>) => void }) {
  return (
    <label>
      the token that attends{" "}
      <select value={String(view.query)} onChange={(event) => onChange({ query: event.currentTarget.value === "null" ? null : Number(event.currentTarget.value) })}>
        <option value="null">as the mouse points</option>
        {groupTokens(source.summary.queries, view.words).map((group) => <option value={String(group.members[0])}>{`${group.label} at ${group.members[0]}`}</option>)}
      </select>
    </label>
  );
}

/** j and k go through the rows, brackets through heads and braces through layers, Escape lets a row go. */
function useKeys(source: Source, rows: Group[], onChange: Change): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select")) {
        if (event.key === "Escape") target.blur();
        return;
      }
      const { layers, heads } = source.summary;
      const within = (value: number, most: number) => Math.max(0, Math.min(most, value));
      const layer = (move: number) =>
        onChange((view) => ({ layer: layers[within(layers.indexOf(view.layer) + move, layers.length - 1)] }));
      const head = (move: number) =>
        onChange((view) => ({ head: within(view.head + move, heads - 1), layer: view.layer || layers[0] }));
      const row = (move: number) =>
        onChange((view) => {
          const held = groupOf(rows, view.query);
          return rows.length ? { query: rows[within(held === null ? 0 : held + move, rows.length - 1)].members[0] } : {};
        });
      const actions: Record<string, () => void> = {
        j: () => row(1), k: () => row(-1),
        "[": () => head(-1), "]": () => head(1), "{": () => layer(-1), "}": () => layer(1),
        Escape: () => onChange({ query: null }),
        w: () => onChange((view) => ({ words: !view.words })),
        s: () => onChange((view) => ({ special: !view.special })),
        m: () => onChange((view) => ({ map: view.map === "all" ? "effective" : "all" })),
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
