// The page of one text: the band, heads, the answer for the selected row, the text, the table and maps, and folded sections.

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Source } from "./data/source";
import { useCertificate } from "./data/useCertificate";
import { useMaps } from "./data/useMaps";
import { useReading } from "./data/useReading";
import { type Group, groupOf, groupTokens } from "./drawing/grouping";
import { Pointer } from "./drawing/pointer";
import { rowFacts } from "./drawing/row";
import { makeScene, makeSides } from "./drawing/scene";
import { useKeys } from "./keys";
import { Answer } from "./panels/Answer";
import { Band } from "./panels/Band";
import { Fold } from "./panels/Fold";
import { TextHeads } from "./panels/HeadGrid";
import { ColumnTable, ColumnView } from "./panels/ColumnView";
import { ImageView } from "./panels/ImageView";
import { MapPair } from "./panels/MapPair";
import { canMove } from "./panels/MovePanel";
import { RowControls } from "./panels/RowControls";
import { RowTable } from "./panels/RowTable";
import { Sections } from "./panels/Sections";
import { StepSlider } from "./panels/StepSlider";
import { TextView } from "./panels/TextView";
import { Tooltip } from "./panels/Tooltip";
import { type Change, type View, withSection } from "./view";

interface Properties {
  source: Source;
  view: View;
  dark: boolean;
  onChange: Change;
  onLonger?: () => void; // runs a longer text
}

export function Explorer({ source, view, dark, onChange, onLonger }: Properties) {
  const { summary } = source;
  const pointer = useMemo(() => new Pointer(), [source]);
  const [answered, setAnswered] = useState(false); // the first row before all heads
  const state = useReading(source, answered);
  const { reading } = state;
  const layer = summary.layers.indexOf(view.layer);
  const own = reading?.own[layer] ?? null;
  const { computed, failed } = useMaps(source, view.layer, view.head, view.from, reading);
  const from = computed?.from ?? view.from;
  const sides = useMemo(() => makeSides(summary, { words: view.words, special: view.special, from }), [summary, view.words, view.special, from]);
  const scene = useMemo(
    () => computed && makeScene(summary, sides, computed.maps, computed.error, { ...view, layer: computed.layer, head: computed.head, from: computed.from }, dark, computed.titles, computed.certified),
    [computed, summary, sides, view.gamma, view.scale, view.sink, dark],
  );
  const selected = scene ? groupOf(scene.rows, view.query) : null;
  const certificate = useCertificate(source, view, scene !== null && selected !== null && scene.rows[selected].members.length === 1);
  const waiting = certificate.possible && certificate.certificate === null && certificate.job.failed === null;
  useEffect(() => void (scene && !waiting && setAnswered(true)), [scene, waiting]);
  const facts = useMemo(
    () => scene && selected !== null ? rowFacts(scene, selected, own, certificate.certificate, certificate.alternative?.row ?? null) : null,
    [scene, selected, own, certificate.certificate, certificate.alternative],
  );
  const select = useCallback((group: Group) => onChange({ query: group.members[0] }), [onChange]);
  const selectRow = useCallback((row: number) => select(scene!.rows[row]), [scene, select]);
  const every = useMemo(() => groupTokens(summary.queries, view.words).filter((group) => view.special || !group.special), [summary, view.words, view.special]);
  useKeys(summary, every, onChange);
  const [content, width] = useWidth();
  const openSection = (name: string) => {
    onChange((before) => ({ open: withSection(before.open, name, true) }));
    const summaryOf = () => content.current!.querySelector<HTMLElement>(`.section.${name} > summary`);
    requestAnimationFrame(() => { summaryOf()?.scrollIntoView(); summaryOf()?.focus({ preventScroll: true }); });
  };
  const columns = view.side === "column" && summary.keys === null;

  return (
    <main class="explorer" ref={content}>
      <Band summary={summary} state={state} onLonger={onLonger} />
      <div class="side"><Fold title="Heads"><TextHeads source={source} reading={reading} view={view} dark={dark} onChange={onChange} /></Fold></div>
      <div class="main">
        <Answer summary={summary} reading={reading} view={view} scene={scene} facts={facts} selected={selected} certificate={certificate} served={"id" in summary} columns={columns} onMove={canMove({ source, view, scene, selected }) ? () => openSection("move") : null} />
        {summary.answer && <StepSlider source={source} answer={summary.answer} view={view} scene={scene} onChange={onChange} />}
        <RowControls summary={summary} view={view} scene={scene} reading={reading} onChange={onChange} />
        {failed && <p role="alert" class="alert">{failed}</p>}
        {scene && (
          <>
            {summary.image ? <ImageView image={summary.image} scene={scene} view={view} selected={selected} onSelect={select} />
            : columns ? <ColumnView scene={scene} view={view} onSelect={select} />
            : <TextView scene={scene} facts={facts} selected={selected} pointer={pointer} onSelect={select} same={summary.keys === null} view={view} answerFrom={summary.answer?.start ?? null} />}
            <div class="row">
              {columns ? <ColumnTable scene={scene} view={view} /> : <RowTable terms={summary.terms} scene={scene} facts={facts} selected={selected} certificate={certificate} view={view} onChange={onChange} />}
              <Fold title="Maps"><MapPair scene={scene} summary={summary} view={view} selected={selected} pointer={pointer} onSelect={selectRow} onChange={onChange} /></Fold>
            </div>
          </>
        )}
      </div>
      {scene && width > 0 && (
        <Sections source={source} reading={reading} view={view} scene={scene} sides={sides} selected={selected} pointer={pointer} width={width} dark={dark} onChange={onChange} onSelect={selectRow} />
      )}
      {scene && <Tooltip scene={scene} facts={facts} selected={selected} pointer={pointer} />}
    </main>
  );
}

/** The width of an element, in CSS pixels. */
function useWidth() {
  const element = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(element.current!.getBoundingClientRect().width));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return [element, width] as const;
}
