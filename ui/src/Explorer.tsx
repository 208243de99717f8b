// The panels of one text. To add one: a component in panels/, and its data in page/panels.py.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "./data/source";
import type { Certificate } from "./data/summary";
import { useHeadNumbers } from "./data/useHeadNumbers";
import { useMaps } from "./data/useMaps";
import { formatHeadNumber, printable } from "./drawing/format";
import { type Group, groupOf, groupTokens } from "./drawing/grouping";
import { Pointer } from "./drawing/pointer";
import { headName, makeScene, makeSides } from "./drawing/scene";
import { AttributionPanel } from "./panels/AttributionPanel";
import { CertificatePanel } from "./panels/CertificatePanel";
import { Controls } from "./panels/Controls";
import { Exports } from "./panels/Exports";
import { TextHeads } from "./panels/HeadGrid";
import { MapCanvas } from "./panels/MapCanvas";
import { Readout, RowTable } from "./panels/RowTable";
import { TextBars } from "./panels/TextBars";
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
  const { computed, failed } = useMaps(source, view.layer, view.head, view.from);
  const from = computed?.from ?? view.from;
  const sides = useMemo(() => makeSides(summary, { words: view.words, special: view.special, from }), [summary, view.words, view.special, from]);
  const scene = useMemo(
    () => computed && makeScene(summary, sides, computed.maps, computed.error, { ...view, layer: computed.layer, head: computed.head, from: computed.from }, dark),
    [computed, summary, sides, view.gamma, view.scale, dark],
  );
  const main = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(main.current?.getBoundingClientRect().width ?? 0));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(main.current!);
    return () => observer.disconnect();
  }, []);

  const [certificates, setCertificates] = useState<Certificate[]>(summary.certificates);
  const selected = scene ? groupOf(scene.rows, view.query) : null;
  const select = useCallback(
    (group: Group) => onChange((before) => ({ query: before.query !== null && group.members.includes(before.query) ? null : group.members[0] })),
    [onChange],
  );
  const selectRow = useCallback((row: number) => select(scene!.rows[row]), [scene, select]);
  const every = useMemo(() => groupTokens(summary.queries, view.words).filter((group) => view.special || !group.special), [summary, view.words, view.special]);
  useKeys(source, every, onChange);

  const found = useHeadNumbers(source, view.color);
  const layer = summary.layers.indexOf(view.layer);
  const headNumbers =
    layer >= 0 && view.head >= 0 &&
    Object.entries(found.numbers).filter(([, numbers]) => numbers).map(([name, numbers]) => `${name.replaceAll("_", " ")} ${formatHeadNumber(numbers![layer][view.head])}`).join(", ");
  const kinds = scene?.kinds.filter((kind) => view.map === "all" || view.map === kind) ?? [];
  // Borders and gaps as in the style.
  const room = view.map === "all" ? (width - 24 * (kinds.length - 1)) / Math.max(kinds.length, 1) : width;
  const size = Math.max(160, Math.min(Math.floor(room) - 2, view.map === "all" ? 520 : 900));
  const needle = view.find.trim().toLowerCase();
  const matches = needle && scene ? scene.columns.filter((group) => group.label.toLowerCase().includes(needle)).length : 0;

  return (
    <div class="explorer">
      {(found.sentences.length > 0 || found.reading.progress !== null) && (
        <p class="finding" role="status">{printable(found.sentences.join(" ")) || "Reading the attention …"}</p>
      )}
      {found.reading.failed && <p role="alert" class="alert">{found.reading.failed}</p>}
      <TextHeads source={source} found={found} view={view} dark={dark} onChange={onChange} />
      <div class="main" ref={main}>
        <h2 class="selected-head">{headName(view)[0].toUpperCase() + headName(view).slice(1)} <small>{headNumbers}</small></h2>
        <Controls summary={summary} view={view} matches={matches} onChange={onChange} />
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
                  terms={summary.terms}
                  selected={selected}
                  pointer={pointer}
                  onSelect={selectRow}
                  enlarged={view.map === kind}
                  onEnlarge={() => onChange({ map: view.map === kind ? "all" : kind })}
                />
              ))}
            </div>
            <Readout scene={scene} pointer={pointer} />
            <section aria-label="tokens">
              <TextBars scene={scene} selected={selected} pointer={pointer} onSelect={select} same={summary.keys === null} find={view.find} />
              {summary.keys !== null && <QueryList source={source} view={view} onChange={onChange} />}
            </section>
            <div class="row">
              <section aria-label="weights of a row"><RowTable scene={scene} selected={selected} pointer={pointer} /></section>
              {view.query !== null && view.head >= 0 && view.layer !== 0 && summary.window === null && (
                <CertificatePanel
                  key={`${view.layer} ${view.head} ${view.query}`}
                  source={source}
                  layer={view.layer}
                  head={view.head}
                  query={view.query}
                  certificates={certificates}
                  onCertificate={(added) => setCertificates((before) => [added, ...before.filter((other) => !sameRow(other, added))])}
                />
              )}
            </div>
            {view.query !== null && summary.keys === null && (
              <AttributionPanel source={source} token={view.query} dark={dark} />
            )}
            <Exports summary={summary} scene={scene} selected={selected} />
          </>
        )}
      </div>
    </div>
  );
}

function sameRow(one: Certificate, other: Certificate): boolean {
  return one.layer === other.layer && one.head === other.head && one.query === other.query;
}

/** Selects a row where queries and keys are different tokens, as from a decoder to an encoder. */
function QueryList({ source, view, onChange }: { source: Source; view: View; onChange: (change: Partial<View>) => void }) {
  return (
    <label>
      query token{" "}
      <select value={String(view.query)} onChange={(event) => onChange({ query: event.currentTarget.value === "null" ? null : Number(event.currentTarget.value) })}>
        <option value="null">under the pointer</option>
        {groupTokens(source.summary.queries, view.words).map((group) => <option value={String(group.members[0])}>{`${group.label} at ${group.members[0]}`}</option>)}
      </select>
    </label>
  );
}

/** j and k move through rows, brackets through heads and braces through layers; Escape clears the selected row. */
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
          const selected = groupOf(rows, view.query);
          return rows.length ? { query: rows[within(selected === null ? 0 : selected + move, rows.length - 1)].members[0] } : {};
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
