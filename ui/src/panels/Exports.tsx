import { useState } from "preact/hooks";
import type { Summary } from "../data/summary";
import { asCsv, asJson, asPython, asSvg, fileName } from "../drawing/exports";
import { asPng, save } from "../drawing/pictures";
import type { Scene } from "../drawing/scene";
import { FRAMED } from "../notebook";

export function Exports({ summary, scene, selected }: { summary: Summary; scene: Scene; selected: number | null }) {
  const [copied, setCopied] = useState("");
  const download = (ending: string, type: string, content: BlobPart) => save(fileName(summary, scene, ending), new Blob([content], { type }));
  const copy = async (what: string, text: string) => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(`${what} copied`);
    } catch {
      setCopied(`this browser does not allow copying; select the ${what} on the page instead`);
    }
  };
  const python = asPython(summary, scene, selected);
  return (
    <section class="exports" aria-label="export">
      <h2>Export</h2>
      <p class="buttons">
        <button type="button" onClick={() => download("svg", "image/svg+xml", asSvg(summary, scene))}>SVG</button>
        <button type="button" onClick={async () => download("png", "image/png", await asPng(asSvg(summary, scene)))}>PNG</button>
        <button type="button" onClick={() => download("csv", "text/csv", asCsv(scene, selected))}>CSV</button>
        <button type="button" onClick={() => download("json", "application/json", asJson(summary, scene, selected))}>JSON</button>
        {!FRAMED && <button type="button" onClick={() => copy("link", location.href)}>Copy link</button>}
        <button type="button" onClick={() => copy("Python", python)}>Copy Python</button>
        <span role="status">{copied}</span>
      </p>
      <p class="note">CSV and JSON hold the weights {selected === null ? "of all rows" : "of the selected row"}, accurate to {(100 * scene.error).toFixed(2)}% of the head's largest weight. The same view in Python:</p>
      <pre tabIndex={0} role="region" aria-label="the same view in Python">{python}</pre>
    </section>
  );
}
