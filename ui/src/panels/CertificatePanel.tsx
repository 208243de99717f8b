// Certified bounds of the selected row, an alternative row with the same output, and the model run with it.

import type { Ref } from "preact";
import { useRef, useState } from "preact/hooks";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import type { Certificate, PatchedRun, Tokens } from "../data/summary";
import { useJob } from "../data/useJob";
import { formatNumber, printable } from "../drawing/format";
import { standalone } from "../drawing/pictures";
import { PictureButtons } from "./PictureButtons";
import { Progress } from "./Progress";

const MOST_ROWS = 10;
const DEFAULTS = ["rival", "farthest"]; // alternatives to show first, if they exist

interface Properties {
  source: Source;
  layer: number;
  head: number;
  query: number;
  certificates: Certificate[];
  onCertificate: (certificate: Certificate) => void;
}

export function CertificatePanel({ source, layer, head, query, certificates, onCertificate }: Properties) {
  const job = useJob();
  const drawing = useRef<SVGSVGElement>(null);
  const [chosen, setChosen] = useState("");
  const certificate = certificates.find((other) => other.layer === layer && other.head === head && other.query === query);
  const served = source instanceof ServedSource ? source : null;
  if (!certificate) {
    if (!served) return null;
    return (
      <section class="certificate" aria-label="certificate">
        <h2>Certificate</h2>
        {job.progress === null && (
          <p>
            <button type="button" onClick={() => job.start((onProgress) => served.certify(layer, head, query, onProgress), onCertificate)}>Certify this row</button>{" "}
            <span class="note">Compute how far each weight could differ while the head's output stays the same.</span>
          </p>
        )}
        <Progress job={job} activity="computing certified bounds" />
      </section>
    );
  }
  const names = Object.keys(certificate.alternatives);
  const name = [chosen, ...DEFAULTS, ...names].find((option) => names.includes(option));
  const alternative = name === undefined ? null : certificate.alternatives[name];
  return (
    <section class="certificate" aria-label="certificate">
      <h2>Certificate</h2>
      <p>{printable(certificate.sentence)}</p>
      <Intervals certificate={certificate} keys={source.summary.keys ?? source.summary.queries} alternative={alternative?.row ?? null} drawing={drawing} />
      <p class="note">● weight, ├─┤ certified interval{alternative && <>, <span class="mark alternative">◇</span> alternative</>} <PictureButtons name={`intervals-layer-${layer}-head-${head}-row-${query}`} svg={() => standalone(drawing.current!)} /></p>
      {name !== undefined && alternative && (
        <p>
          <label>
            Alternative with the same output:{" "}
            <select value={name} onChange={(event) => setChosen(event.currentTarget.value)}>
              {names.map((option) => <option value={option}>{certificate.alternatives[option].label}</option>)}
            </select>
          </label>
          , which moves {(100 * alternative.total_variation).toFixed(0)}% of the row's weight.{" "}
          {served && job.progress === null && (
            <button
              type="button"
              onClick={() => job.start((onProgress) => served.patch(certificate, name, onProgress), (patched_run) => onCertificate({ ...certificate, patched_run }))}
            >
              Run the model with it
            </button>
          )}
        </p>
      )}
      <Progress job={job} activity="running the model" />
      {certificate.patched_run && <PatchedRunOutcome run={certificate.patched_run} label={certificate.alternatives[certificate.patched_run.alternative]?.label} />}
    </section>
  );
}

/** Weights as dots, certified intervals as error bars, the alternative as diamonds. */
function Intervals({ certificate, keys, alternative, drawing }: { certificate: Certificate; keys: Tokens; alternative: number[] | null; drawing: Ref<SVGSVGElement> }) {
  const { raw, low, high } = certificate;
  const weight = (key: number) => Math.max(raw[key], alternative?.[key] ?? 0);
  const rows = raw.map((_, key) => key).filter((key) => low[key] !== null).sort((a, b) => weight(b) - weight(a)).slice(0, MOST_ROWS);
  const most = Math.max(...rows.map((key) => high[key] ?? 0), 1e-6);
  const [left, width, line] = [130, 380, 22];
  const x = (value: number) => left + (value / most) * width;
  return (
    <svg ref={drawing} class="intervals" viewBox={`0 0 ${left + width + 20} ${rows.length * line + 34}`} role="img" aria-label="certified intervals of the largest weights">
      {rows.map((key, index) => {
        const y = index * line + 14;
        return (
          <g>
            <title>{`${printable(keys.texts[key])} at ${key}: ${formatNumber(raw[key])}, certified in [${formatNumber(low[key])}, ${formatNumber(high[key])}]`}</title>
            <text x={left - 10} y={y + 4} text-anchor="end">{`${printable(keys.texts[key]).slice(0, 14)} ${key}`}</text>
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

function PatchedRunOutcome({ run, label }: { run: PatchedRun; label: string | undefined }) {
  // A logarithmic scale from one billionth to ten.
  const share = (value: number) => Math.max(0, Math.min(1, (Math.log10(Math.max(value, 1e-9)) + 9) / 10));
  const bars: [string, number, string][] = [["patched run", run.patched, "effective"], ["control", run.control, "null"]];
  return (
    <div class="patched-run">
      <p>{run.sentence}</p>
      {bars.map(([name, value, kind]) => (
        <div class="patched-run-bar"><span>{name}</span><span class="track"><i class={`bar ${kind}`} style={{ width: `${share(value) * 100}%` }} /></span><span>{value.toExponential(0)}</span></div>
      ))}
      <p class="note">Change of the model's output, on a logarithmic scale{label && `; alternative: ${label}`}.</p>
    </div>
  );
}
