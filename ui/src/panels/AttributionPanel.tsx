// Hidden Token Attribution of the selected token: contributions of input tokens to its hidden vector, by layer.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Attribution } from "../data/attribution";
import { unpackAll } from "../data/packing";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import { useJob } from "../data/useJob";
import { formatPercent, printable } from "../drawing/format";
import { standalone } from "../drawing/pictures";
import { layerTable } from "../drawing/tables";
import { AttributionPicture } from "./AttributionPicture";
import { NumberButtons } from "./NumberButtons";
import { PictureButtons } from "./PictureButtons";
import { Progress } from "./Progress";

const MOST_SOURCES = 3;

export function AttributionPanel({ source, token, dark }: { source: Source; token: number; dark: boolean }) {
  const job = useJob();
  const [attribution, setAttribution] = useState<Attribution | null>(null);
  const drawing = useRef<SVGSVGElement>(null);
  const served = source instanceof ServedSource ? source : null;
  useEffect(() => {
    let wanted = true;
    job.cancel();
    source.attribution(token).then((known) => {
      if (!wanted) return;
      setAttribution(known);
      if (!known && served) job.start((onProgress) => served.attribute(token, onProgress), setAttribution);
    });
    return () => void (wanted = false);
  }, [source, token]);
  const { queries, attribution_seconds } = source.summary;
  const tokens = queries.texts;
  const contributions = useMemo(() => attribution && unpackAll(attribution.contributions), [attribution]);
  const target = attribution?.targets.indexOf(token) ?? -1;
  const rows = target < 0 ? null : contributions!.map((layer) => layer.subarray(target * tokens.length, (target + 1) * tokens.length));
  if (!attribution && !served) return <p>This file has no attribution; identiformer attribute and identiformer explore compute it.</p>;
  return (
    <section class="attribution" aria-label="attribution">
      <h2>Contributions to the hidden vector of ‘<bdi>{printable(tokens[token])}</bdi>’ at {token}</h2>
      {job.progress !== null && attribution_seconds !== undefined && <p class="note">This takes about {Math.max(1, Math.round(attribution_seconds))} s: one token, at every layer.</p>}
      <Progress job={job} activity="computing attribution" />
      {attribution && rows && (
        <>
          {attribution.targets.length === 1 && <p>{attribution.sentences.map((sentence) => <>{printable(sentence)} </>)}</p>}
          <AttributionPicture rows={rows} layers={attribution.layers} tokens={tokens} token={token} dark={dark} drawing={drawing} />
          <p><PictureButtons name={`attribution-of-${token}`} svg={() => standalone(drawing.current!)} /> <NumberButtons name={`attribution-of-${token}`} table={() => layerTable(attribution.layers, rows, tokens, "contribution")} about={{ model: source.summary.model, text: source.summary.text, pair: source.summary.pair, token }} /></p>
          <AttributionTable attribution={attribution} rows={rows} tokens={tokens} token={token} target={target} />
        </>
      )}
    </section>
  );
}

function AttributionTable({ attribution, rows, tokens, token, target }: { attribution: Attribution; rows: Float32Array[]; tokens: string[]; token: number; target: number }) {
  const { corpus } = attribution;
  return (
    <table class="row-table">
      {corpus && <caption>Corpus medians are over all tokens of <bdi>{printable(corpus.name)}</bdi>.</caption>}
      <thead>
        <tr>
          <th scope="col">layer</th><th scope="col">self-contribution</th>{corpus && <th scope="col">corpus median</th>}
          <th scope="col" class="words">largest contributions</th><th scope="col">main contributor certain</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row, index) => {
          const largest = Array.from(row, (share, position) => ({ share, position })).sort((a, b) => b.share - a.share).slice(0, MOST_SOURCES);
          return (
            <tr>
              <th scope="row">{attribution.layers[index]}</th>
              <td class="number self-contribution"><span class="meter effective" style={{ width: formatPercent(row[token]) }} aria-hidden="true" /><span>{formatPercent(row[token])}</span></td>
              {corpus && <td>{formatPercent(corpus.medians[index])}</td>}
              <td class="words">{largest.map(({ share, position }) => <span><bdi>{printable(tokens[position])}</bdi> <small>{position}</small> {formatPercent(share)}&ensp;</span>)}</td>
              <td>{attribution.certain[index][target] ? "yes" : "no"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
