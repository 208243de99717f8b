// Where a token's hidden vector came from, layer by layer: shares of input tokens.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { DARK, LIGHT, paint, table } from "./colours";
import { fromBase64, unpack } from "./packing";
import { Progress } from "./Progress";
import { type Origins, ServedSource } from "./server";
import { shown } from "./shown";
import { useJob } from "./useJob";

const TOP = 3;

export function OriginsPanel({ source, token, dark }: { source: ServedSource; token: number; dark: boolean }) {
  const job = useJob();
  const [found, setFound] = useState<Origins | null>(null);
  useEffect(() => setFound(null), [source]);
  const tokens = source.summary.queries.texts;
  const name = `‘${shown(tokens[token])}’ at ${token}`;
  const shares = useMemo(() => {
    if (!found) return null;
    const bytes = fromBase64(found.content);
    return found.layers.map((_, layer) => unpack(bytes, 0, found.shares, layer));
  }, [found]);
  const count = tokens.length;
  return (
    <section class="origins" aria-label="where the hidden vector came from">
      <h2>Where the hidden vector of {name} came from</h2>
      {!found && job.progress === null && (
        <p>
          <button type="button" onClick={() => job.start((onProgress) => source.attribute(onProgress), setFound)}>Attribute</button>{" "}
          <span class="note">The share of every input token in every hidden vector, at each layer.</span>
        </p>
      )}
      <Progress job={job} what="attributing" />
      {found && shares && (
        <>
          <Strip rows={shares.map((layer) => layer.subarray(token * count, (token + 1) * count))} dark={dark} />
          <table class="row-table">
            <caption>Layers from top to bottom, input tokens from left to right in the strip; the shares of a layer, as a distribution, are expected to err by {(100 * found.error).toFixed(1)}% at most.</caption>
            <thead><tr><th scope="col">layer</th><th scope="col">its own share</th><th scope="col">largest shares</th><th scope="col">first is certain</th></tr></thead>
            <tbody>
              {shares.map((layer, at) => {
                const row = Array.from(layer.subarray(token * count, (token + 1) * count));
                const top = row.map((share, position) => ({ share, position })).sort((a, b) => b.share - a.share).slice(0, TOP);
                return (
                  <tr>
                    <th scope="row">{found.layers[at]}</th>
                    <td class="number"><span class="meter effective" style={{ width: `${row[token] * 100}%` }} aria-hidden="true" /><span>{(100 * row[token]).toFixed(1)}%</span></td>
                    <td class="words">{top.map(({ share, position }) => <span><bdi>{shown(tokens[position])}</bdi> {(100 * share).toFixed(1)}%&ensp;</span>)}</td>
                    <td>{found.certain[at][token] ? "yes" : "no"}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
}

function Strip({ rows, dark }: { rows: Float32Array[]; dark: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const columns = rows[0].length;
    const whole = new Float32Array(rows.length * columns);
    rows.forEach((row, at) => whole.set(row, at * columns));
    canvas.current!.width = columns;
    canvas.current!.height = rows.length;
    canvas.current!.getContext("2d")!.putImageData(paint(whole, rows.length, columns, 1, 0.5, table(dark ? DARK : LIGHT), 8192), 0, 0);
  }, [rows, dark]);
  return <canvas ref={canvas} class="strip" style={{ height: `${rows.length * 14}px` }} role="img" aria-label="shares of input tokens by layer; the table below has the largest" />;
}
