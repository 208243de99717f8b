// How far the weights of a row could lie elsewhere with the same output: certain intervals, another attention, the model run with it.

import type { Ref } from "preact";
import { useRef, useState } from "preact/hooks";
import { standalone } from "./pictures";
import { Progress } from "./Progress";
import { ServedSource } from "./server";
import { number, shown } from "./shown";
import type { Source } from "./source";
import type { Certificate, Tokens } from "./summary";
import { TakePicture } from "./TakePicture";
import { useJob } from "./useJob";

const SHOWN = 10;
const NAMES: Record<string, string> = {
  null_direction: "along a null direction", sparsest: "the sparsest found", farthest: "the farthest found",
  maximum_entropy: "the most even", rival: "with another largest key",
};

interface Properties {
  source: Source;
  layer: number;
  head: number;
  query: number;
  known: Certificate[];
  onKnown: (certificate: Certificate) => void;
}

export function Verdict({ source, layer, head, query, known, onKnown }: Properties) {
  const job = useJob();
  const drawing = useRef<SVGSVGElement>(null);
  const [chosen, setChosen] = useState("");
  const found = known.find((each) => each.layer === layer && each.head === head && each.query === query);
  const served = source instanceof ServedSource ? source : null;
  const keys = source.summary.keys ?? source.summary.queries;
  if (!found) {
    if (!served) return null;
    return (
      <section class="verdict" aria-label="verdict">
        <h2>Verdict</h2>
        {job.progress === null && (
          <p>
            <button type="button" onClick={() => job.start((onProgress) => served.certify(layer, head, query, onProgress), onKnown)}>Certify this row</button>{" "}
            <span class="note">How far could each weight lie elsewhere, with the head's output the same?</span>
          </p>
        )}
        <Progress job={job} what="certifying" />
      </section>
    );
  }
  const kinds = Object.keys(found.alternatives);
  const kind = kinds.includes(chosen) ? chosen : kinds.includes("rival") ? "rival" : kinds.includes("farthest") ? "farthest" : kinds[0];
  const alternative = kind === undefined ? null : found.alternatives[kind];
  return (
    <section class="verdict" aria-label="verdict">
      <h2>Verdict</h2>
      <p>{sentence(found, keys)}</p>
      <Intervals certificate={found} keys={keys} alternative={alternative?.row ?? null} drawing={drawing} />
      <TakePicture name={`intervals-layer-${layer}-head-${head}-row-${query}`} svg={() => standalone(drawing.current!)} />
      {alternative && (
        <p>
          <label>
            <span class="mark alternative" aria-hidden="true">◇</span> another attention with the same output:{" "}
            <select value={kind} onChange={(event) => setChosen(event.currentTarget.value)}>
              {kinds.map((each) => <option value={each}>{NAMES[each] ?? each}</option>)}
            </select>
          </label>{" "}
          moves {(100 * alternative.total_variation).toFixed(0)}% of the row.{" "}
          {served && job.progress === null && (
            <button
              type="button"
              onClick={() => job.start((onProgress) => served.rerun(found, kind, onProgress), (rerun) => onKnown({ ...found, rerun }))}
            >
              Run the model with it
            </button>
          )}
        </p>
      )}
      <Progress job={job} what="running the model" />
      {found.rerun && <Outcome rerun={found.rerun} />}
    </section>
  );
}

function sentence(found: Certificate, keys: Tokens): string {
  const key = found.largest;
  const [low, high] = [found.low[key], found.high[key]];
  const name = (at: number) => `‘${shown(keys.texts[at])}’ at ${at}`;
  const sure = low !== null && high !== null && high - low < 0.01;
  const first = `The largest weight, ${number(found.raw[key])} on ${name(key)}, `;
  const second = sure ? `is certain: it lies in [${number(low)}, ${number(high)}]` : `lies somewhere in [${number(low)}, ${number(high)}]`;
  const third = found.argmax_certified
    ? "it is the largest in every case."
    : found.rival >= 0 ? `another key, ${name(found.rival)}, could be larger.` : "whether it is always the largest is undecided.";
  return `${first}${second} with the head's output the same, to ${found.tolerance} of its length; ${third}`;
}

/** Weights as dots, certain intervals as error bars, the other attention as diamonds. */
function Intervals({ certificate, keys, alternative, drawing }: { certificate: Certificate; keys: Tokens; alternative: number[] | null; drawing: Ref<SVGSVGElement> }) {
  const { raw, low, high } = certificate;
  const weight = (key: number) => Math.max(raw[key], alternative?.[key] ?? 0);
  const rows = raw.map((_, key) => key).filter((key) => low[key] !== null).sort((a, b) => weight(b) - weight(a)).slice(0, SHOWN);
  const most = Math.max(...rows.map((key) => high[key] ?? 0), 1e-6);
  const [left, width, line] = [130, 380, 22];
  const x = (value: number) => left + (value / most) * width;
  return (
    <svg ref={drawing} class="intervals" viewBox={`0 0 ${left + width + 20} ${rows.length * line + 34}`} role="img" aria-label="certain intervals of the largest weights">
      {rows.map((key, at) => {
        const y = at * line + 14;
        return (
          <g>
            <title>{`${shown(keys.texts[key])} at ${key}: ${number(raw[key])} in [${number(low[key])}, ${number(high[key])}]`}</title>
            <text x={left - 10} y={y + 4} text-anchor="end">{`${shown(keys.texts[key]).slice(0, 14)} ${key}`}</text>
            <line x1={x(low[key]!)} x2={x(high[key]!)} y1={y} y2={y} class="interval" />
            <line x1={x(low[key]!)} x2={x(low[key]!)} y1={y - 5} y2={y + 5} class="interval" />
            <line x1={x(high[key]!)} x2={x(high[key]!)} y1={y - 5} y2={y + 5} class="interval" />
            <circle cx={x(raw[key])} cy={y} r={4} class="weight" />
            {alternative && <path d={`M${x(alternative[key]) - 5} ${y} l5 -5 l5 5 l-5 5 z`} class="alternative" />}
          </g>
        );
      })}
      {[0, 0.25, 0.5, 0.75, 1].map((share) => (
        <text x={left + share * width} y={rows.length * line + 24} text-anchor="middle" class="tick">{(share * most).toPrecision(2).replace(/\.?0+$/, "")}</text>
      ))}
      <line x1={left} x2={left + width} y1={rows.length * line + 8} y2={rows.length * line + 8} class="axis" />
    </svg>
  );
}

function Outcome({ rerun }: { rerun: NonNullable<Certificate["rerun"]> }) {
  const digits = (value: number) => value.toPrecision(1);
  // A bar for each power of ten above one billionth.
  const share = (value: number) => Math.max(0, Math.min(1, (Math.log10(Math.max(value, 1e-9)) + 9) / 10));
  const bars: [string, number, string][] = [
    ["with the other attention", rerun.patched, "effective"], ["a random change of the same size", rerun.control, "null"],
  ];
  return (
    <div class="outcome">
      <p>Run with it ({NAMES[rerun.alternative] ?? rerun.alternative}), the model's output moves by <b>{digits(rerun.patched)}</b>; with a random change of the same size by <b>{digits(rerun.control)}</b>. The largest output is {digits(rerun.scale)}.</p>
      {bars.map(([name, value, kind]) => (
        <div class="outcome-bar"><span>{name}</span><span class="track"><i class={`bar ${kind}`} style={{ width: `${share(value) * 100}%` }} /></span><span>{value.toExponential(0)}</span></div>
      ))}
      <p class="note">Bars grow by powers of ten.</p>
    </div>
  );
}
