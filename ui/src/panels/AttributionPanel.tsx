// Hidden Token Attribution of the selected token: contributions of input tokens to its hidden vector, by layer.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Attribution, contributionsOf } from "../data/attribution";
import { ServedSource } from "../data/server";
import type { Source } from "../data/source";
import { useJob } from "../data/useJob";
import { formatPercent, printable } from "../drawing/format";
import { standalone } from "../drawing/pictures";
import { AttributionPicture } from "./AttributionPicture";
import { PictureButtons } from "./PictureButtons";
import { Progress } from "./Progress";

const MOST_SOURCES = 3;

export function AttributionPanel({ source, token, dark }: { source: Source; token: number; dark: boolean }) {
  const job = useJob();
  const [attribution, setAttribution] = useState<Attribution | null>(null);
  const drawing = useRef<SVGSVGElement>(null);
  useEffect(() => {
    let wanted = true;
    source.attribution().then((computed) => wanted && setAttribution(computed));
    return () => void (wanted = false);
  }, [source]);
  const tokens = source.summary.queries.texts;
  const contributions = useMemo(() => attribution && contributionsOf(attribution), [attribution]);
  const served = source instanceof ServedSource ? source : null;
  if (!attribution && !served) return null;
  const rows = contributions?.map((layer) => layer.subarray(token * tokens.length, (token + 1) * tokens.length));
  return (
    <section class="attribution" aria-label="attribution">
      <h2>Attribution: contributions to the hidden vector of ‘<bdi>{printable(tokens[token])}</bdi>’ at {token}</h2>
      {!attribution && job.progress === null && (
        <p>
          <button type="button" onClick={() => job.start((onProgress) => served!.attribute(onProgress), setAttribution)}>Compute attribution</button>{" "}
          <span class="note">Estimate the contribution of every input token to every hidden vector, at each layer.</span>
        </p>
      )}
      <Progress job={job} activity="computing attribution" />
      {attribution && rows && (
        <>
          <AttributionPicture rows={rows} layers={attribution.layers} tokens={tokens} token={token} dark={dark} drawing={drawing} />
          <p><PictureButtons name={`attribution-of-${token}`} svg={() => standalone(drawing.current!)} /></p>
          <AttributionTable attribution={attribution} rows={rows} tokens={tokens} token={token} />
          {served && attribution.sentences.map((sentence) => <p class="note">{sentence}</p>) /* a report begins with them */}
        </>
      )}
    </section>
  );
}

function AttributionTable({ attribution, rows, tokens, token }: { attribution: Attribution; rows: Float32Array[]; tokens: string[]; token: number }) {
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
              <td class="words">{largest.map(({ share, position }) => <span><bdi>{printable(tokens[position])}</bdi> {formatPercent(share)}&ensp;</span>)}</td>
              <td>{attribution.certain[index][token] ? "yes" : "no"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
