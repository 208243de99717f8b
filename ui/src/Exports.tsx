import { useState } from "preact/hooks";
import { asCsv, asJson, asNetcdf, asPython, asSvg, fileName } from "./exports";
import { FRAMED } from "./notebook";
import { asPng, save } from "./pictures";
import type { Scene } from "./scene";
import type { Summary } from "./summary";

export function Exports({ summary, scene, held }: { summary: Summary; scene: Scene; held: number | null }) {
  const [copied, setCopied] = useState("");
  const keep = (ending: string, type: string, content: BlobPart) => save(fileName(summary, scene, ending), new Blob([content], { type }));
  const copy = async (what: string, text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(`${what} copied`);
    } catch {
      setCopied(`this browser does not allow copying; take the ${what} from the page`);
    }
  };
  const python = asPython(summary, scene, held);
  return (
    <section class="exports" aria-label="take away">
      <h2>Take away</h2>
      <p class="buttons">
        <button type="button" onClick={() => keep("svg", "image/svg+xml", asSvg(summary, scene))}>SVG</button>
        <button type="button" onClick={async () => keep("png", "image/png", await asPng(asSvg(summary, scene)))}>PNG</button>
        <button type="button" onClick={() => keep("csv", "text/csv", asCsv(scene, held))}>CSV</button>
        <button type="button" onClick={() => keep("json", "application/json", asJson(summary, scene, held))}>JSON</button>
        <button type="button" onClick={() => keep("nc", "application/x-netcdf", asNetcdf(summary, scene, held) as BlobPart)}>NetCDF</button>
        {!FRAMED && <button type="button" onClick={() => copy("link", location.href)}>Copy link</button>}
        <button type="button" onClick={() => copy("Python", python)}>Copy Python</button>
        <span role="status">{copied}</span>
      </p>
      <p class="note">Numbers are those {held === null ? "of the whole map" : "of the held row"}, within {(100 * scene.error).toFixed(2)}% of the largest weight of a head. The same view in Python:</p>
      <pre tabIndex={0} role="region" aria-label="the same view in Python">{python}</pre>
    </section>
  );
}
