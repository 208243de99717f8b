// Where a token's hidden vector came from, layer by layer: shares of input tokens.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { OriginsPicture } from "./OriginsPicture";
import { type Origins, sharesOf } from "./origins";
import { standalone } from "./pictures";
import { Progress } from "./Progress";
import { ServedSource } from "./server";
import { shown } from "./shown";
import type { Source } from "./source";
import { TakePicture } from "./TakePicture";
import { useJob } from "./useJob";

const TOP = 3;
const percent = (share: number) => `${(100 * share).toFixed(1)}%`;

export function OriginsPanel({ source, token, dark }: { source: Source; token: number; dark: boolean }) {
  const job = useJob();
  const [found, setFound] = useState<Origins | null>(null);
  const drawing = useRef<SVGSVGElement>(null);
  useEffect(() => {
    let wanted = true;
    source.origins().then((known) => wanted && setFound(known));
    return () => void (wanted = false);
  }, [source]);
  const tokens = source.summary.queries.texts;
  const shares = useMemo(() => found && sharesOf(found), [found]);
  const served = source instanceof ServedSource ? source : null;
  if (!found && !served) return null;
  const rows = shares?.map((layer) => layer.subarray(token * tokens.length, (token + 1) * tokens.length));
  return (
    <section class="origins" aria-label="where the hidden vector came from">
      <h2>Where the hidden vector of ‘<bdi>{shown(tokens[token])}</bdi>’ at {token} came from</h2>
      {!found && job.progress === null && (
        <p>
          <button type="button" onClick={() => job.start((onProgress) => served!.attribute(onProgress), setFound)}>Attribute</button>{" "}
          <span class="note">The share of every input token in every hidden vector, at each layer.</span>
        </p>
      )}
      <Progress job={job} what="attributing" />
      {found && rows && (
        <>
          <OriginsPicture rows={rows} layers={found.layers} tokens={tokens} token={token} dark={dark} drawing={drawing} />
          <p><TakePicture name={`origins-of-${token}`} svg={() => standalone(drawing.current!)} /></p>
          <OriginsTable found={found} rows={rows} tokens={tokens} token={token} />
        </>
      )}
    </section>
  );
}

function OriginsTable({ found, rows, tokens, token }: { found: Origins; rows: Float32Array[]; tokens: string[]; token: number }) {
  return (
    <table class="row-table">
      <caption>The shares of a layer, as a distribution, are expected to err by {percent(found.error)} at most.{found.corpus && <> Medians are those of all tokens of <bdi>{shown(found.corpus.name)}</bdi>.</>}</caption>
      <thead>
        <tr>
          <th scope="col">layer</th><th scope="col">its own share</th>{found.corpus && <th scope="col">median of the corpus</th>}
          <th scope="col">largest shares</th><th scope="col">first is certain</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => {
          const top = Array.from(row, (share, position) => ({ share, position })).sort((a, b) => b.share - a.share).slice(0, TOP);
          return (
            <tr>
              <th scope="row">{found.layers[at]}</th>
              <td class="number own"><span class="meter effective" style={{ width: percent(row[token]) }} aria-hidden="true" /><span>{percent(row[token])}</span></td>
              {found.corpus && <td>{percent(found.corpus.medians[at])}</td>}
              <td class="words">{top.map(({ share, position }) => <span><bdi>{shown(tokens[position])}</bdi> {percent(share)}&ensp;</span>)}</td>
              <td>{found.certain[at][token] ? "yes" : "no"}</td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
