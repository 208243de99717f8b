// What can be taken away: pictures, numbers, the page itself, a view to open again, and the Python lines that reproduce it.

import { useState } from "preact/hooks";
import { savePage, saveView } from "../data/savedPage";
import { ServedSource } from "../data/server";
import { certificatesOf } from "../data/useCertificate";
import { asPython, fileName, weightTable } from "../drawing/exports";
import { mapsPicture } from "../drawing/mapsPicture";
import { certificateTable } from "../drawing/tables";
import { FRAMED } from "../notebook";
import { NumberButtons } from "./NumberButtons";
import { PictureButtons } from "./PictureButtons";
import type { SectionProperties } from "./Sections";

export function Exports({ source, view, scene, selected, reading }: SectionProperties) {
  const { summary } = source;
  const [said, setSaid] = useState("");
  const name = fileName(summary, scene);
  const { model, text, pair, kind } = summary;
  const about = { model, text, pair, kind, layer: scene.view.layer, head: scene.view.head, words: scene.view.words };
  const certificates = [...certificatesOf(source).values()];
  const copy = async (what: string, content: string) => {
    try {
      await navigator.clipboard.writeText(content);
      setSaid(`${what} copied`);
    } catch {
      setSaid(`this browser does not allow copying; select the ${what} on the page instead`);
    }
  };
  const saveAsHtml = async () => {
    setSaid("writing the page …");
    try {
      await savePage(`${name}.html`, source as ServedSource, view, reading, certificates);
      setSaid("page saved");
    } catch (error) {
      setSaid((error as Error).message || "the explorer does not respond; check that its command is still running.");
    }
  };
  const python = asPython(summary, scene, selected);
  const served = source instanceof ServedSource;
  return (
    <section class="exports" aria-label="export">
      <dl>
        <dt>maps of this head</dt>
        <dd><PictureButtons name={name} svg={() => mapsPicture(summary, scene)} /> <span class="note">or only the two in view</span> <PictureButtons name={`${name}-pair`} svg={() => mapsPicture(summary, scene, scene.kinds.filter((kind) => kind === "raw" || kind === view.map))} /></dd>
        <dt>weights and contributions {selected === null ? "of all rows" : "of the selected row"}</dt>
        <dd><NumberButtons name={name} table={() => weightTable(scene, selected)} about={about} /> <span class="note">accurate to {(100 * scene.error).toFixed(2)}% of the head's largest weight</span></dd>
        {certificates.length > 0 && (
          <><dt>certified bounds of {certificates.length} {certificates.length === 1 ? "row" : "rows"}</dt><dd><NumberButtons name={`${name}-certificates`} table={() => certificateTable(certificates, summary.queries, summary.keys ?? summary.queries)} about={{ model, text, pair, kind }} /></dd></>
        )}
        {served && summary.window === null && <><dt>this page with all that is computed</dt><dd><button type="button" onClick={saveAsHtml}>Save as HTML</button></dd></>}
        {served && <><dt>this view, for <code>identiformer explore --view FILE</code></dt><dd><button type="button" onClick={() => saveView(`${name}.view.json`, summary, view)}>Save view</button></dd></>}
        <dt>link and code</dt>
        <dd>
          {!FRAMED && <button type="button" onClick={() => copy("link", location.href)}>Copy link</button>}{" "}
          <button type="button" onClick={() => copy("Python", python)}>Copy Python</button>
          {served && <span class="note"> the link works while this explorer runs</span>}
        </dd>
      </dl>
      <p role="status">{said}</p>
      <pre tabIndex={0} role="region" aria-label="the same view in Python">{python}</pre>
      <p class="note">PDF opens the print dialog with the picture alone. Other formats: the same figures from Python (<code>idf.figures</code>), saved with matplotlib.</p>
    </section>
  );
}
