// Move weight of the selected row from one key to another, by dragging or with the keyboard, and see what changes.

import { useState } from "preact/hooks";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import type { MovedWeight, Prediction } from "../data/summary";
import { useJob } from "../data/useJob";
import { formatNumber, formatPercent, printable } from "../drawing/format";
import type { Scene } from "../drawing/scene";
import type { View } from "../view";
import { Progress } from "./Progress";
import type { SectionProperties } from "./Sections";

const MOST_KEYS = 12;

export const canMove = ({ source, view, scene, selected }: { source: Source; view: View; scene: Scene | null; selected: number | null }) =>
  source instanceof ServedSource && source.summary.window === null && view.layer !== 0 && view.head >= 0 && !view.words && selected !== null && Boolean(scene?.maps.raw);

export function MovePanel({ source, view, scene, selected }: SectionProperties) {
  const served = source as ServedSource;
  const job = useJob();
  const weights = scene.columns.map((_, column) => scene.value("raw", selected!, column));
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const seen = order.filter((column) => weights[column] > 0);
  const [from, setFrom] = useState(seen[0]);
  const [to, setTo] = useState(seen[1] ?? seen[0]);
  const [share, setShare] = useState(1);
  const [moved, setMoved] = useState<MovedWeight | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  if (seen.length < 2) return <p class="note">This row has weight on one key only, so there is none to move.</p>;
  const position = (column: number) => scene.columns[column].members[0];
  const name = (column: number) => `${scene.columns[column].label} at ${position(column)}`;
  const run = (source: number, target: number) =>
    job.start((onProgress) => served.move({ layer: view.layer, head: view.head, query: view.query! }, position(source), position(target), share, onProgress), setMoved);
  const drop = (target: number) => {
    if (dragged === null || dragged === target) return;
    setFrom(dragged);
    setTo(target);
    run(dragged, target);
  };
  const after = (column: number) => weights[column] + (column === to ? 1 : column === from ? -1 : 0) * share * weights[from];
  const shown = [...new Set([from, to, ...order])].slice(0, MOST_KEYS).sort((a, b) => weights[b] - weights[a]);
  const most = Math.max(...shown.map((column) => Math.max(weights[column], after(column))), 1e-9);
  const choose = (label: string, value: number, onChange: (column: number) => void) => (
    <label>{label} <select value={String(value)} onChange={(event) => { onChange(Number(event.currentTarget.value)); setMoved(null); }}>{seen.map((column) => <option value={String(column)}>{name(column)} ({formatNumber(weights[column])})</option>)}</select></label>
  );
  return (
    <section class="move" aria-label="move weight">
      <p>What if <b><bdi>{scene.rows[selected!].label}</bdi></b> at {view.query} attended elsewhere? Drag one key onto another, or choose both.</p>
      <p class="choices">
        {choose("from", from, setFrom)} {choose("to", to, setTo)}
        <label>share <input type="range" min="0.05" max="1" step="0.05" value={share} onInput={(event) => { setShare(Number(event.currentTarget.value)); setMoved(null); }} /> <output>{formatPercent(share)}</output></label>
        <button type="button" class="primary" disabled={from === to || job.progress !== null} onClick={() => run(from, to)}>Run the model</button>
      </p>
      <div class="moved">
        <ul class="movable" aria-label="largest weights of the row; the mark is the weight after the move">
          {shown.map((column) => (
            <li
              draggable data-key={position(column)} class={`${column === from ? "from" : ""} ${column === to ? "to" : ""}`}
              onDragStart={(event) => { event.dataTransfer?.setData("text/plain", String(position(column))); setDragged(column); }}
              onDragOver={(event) => event.preventDefault()}
              onDrop={(event) => { event.preventDefault(); drop(column); }}
            >
              <span class="key"><bdi>{scene.columns[column].label}</bdi> <small>{position(column)}</small></span>
              <span class="track"><i style={{ width: `${(100 * weights[column]) / most}%` }} />{(column === from || column === to) && <b style={{ left: `${(100 * after(column)) / most}%` }} />}</span>
              <span>{formatNumber(weights[column])}{column === from || column === to ? ` → ${formatNumber(after(column))}` : ""}</span>
            </li>
          ))}
        </ul>
        <div class="outcome" role="status">
          <Progress job={job} activity="running the model" />
          {moved && job.progress === null && <Outcome moved={moved} tokens={source.summary.queries.texts} />}
        </div>
      </div>
    </section>
  );
}

function Outcome({ moved, tokens }: { moved: MovedWeight; tokens: string[] }) {
  return (
    <>
      <p class={`verdict ${moved.alternative ? "alternative" : ""}`}>{moved.alternative ? "an alternative" : "not an alternative"}</p>
      {moved.sentences.map((sentence) => <p>{printable(sentence)}</p>)}
      <div class="predictions">{moved.predictions.map((prediction) => <Predictions prediction={prediction} tokens={tokens} />)}</div>
    </>
  );
}

/** The most probable tokens before and after. */
export function Predictions({ prediction, tokens }: { prediction: Prediction; tokens: string[] }) {
  const { position, before, after } = prediction;
  return (
    <table class="row-table">
      <caption>Prediction after ‘<bdi>{printable(tokens[position])}</bdi>’ at {position}{position === tokens.length - 1 ? ", the end of the text" : ""}</caption>
      <thead><tr><th scope="col" class="words">before</th><th scope="col">probability</th><th scope="col" class="words">with the moved weight</th><th scope="col">probability</th></tr></thead>
      <tbody>
        {before.map(([token, probability], index) => (
          <tr><td class="words"><bdi>{printable(token)}</bdi></td><td>{formatPercent(probability)}</td><td class="words"><bdi>{printable(after[index][0])}</bdi></td><td>{formatPercent(after[index][1])}</td></tr>
        ))}
      </tbody>
    </table>
  );
}
