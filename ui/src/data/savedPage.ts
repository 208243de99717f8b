// What outlives the server: the page as one file with everything computed so far, and a view that the explorer can open again.

import { save } from "../drawing/pictures";
import type { View } from "../view";
import type { ServedSource } from "./server";
import type { Saved } from "./source";
import type { Certificate, Reading, Summary } from "./summary";

const SERVER_ELEMENT = /<script type="application\/json" id="identiformer-server">[\s\S]*?<\/script>/;
const CHUNK = 1 << 15; // characters that a function call takes at once

/** JSON that cannot end the element it is in. */
const safeJson = (value: unknown) => JSON.stringify(value).replace(/[<>&'\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let begin = 0; begin < bytes.length; begin += CHUNK) text += String.fromCharCode(...bytes.subarray(begin, begin + CHUNK));
  return btoa(text);
}

/** The page with the data of this text in place of the server: works offline, and can be sent by mail. */
export async function savePage(name: string, source: ServedSource, view: View, reading: Reading | null, certificates: Certificate[]): Promise<void> {
  const page = await (await fetch(location.pathname)).text();
  const { id: _, ...summary } = source.summary;
  const kept: Summary = { ...summary, reading, certificates, maps: summary.maps.filter(({ name }) => source.maps.has(name)), answer: summary.answer && { ...summary.answer, sources: source.sources }, view };
  const elements = [`<script type="application/json" id="identiformer-summary">${safeJson(kept)}</script>`];
  for (const number of summary.layers) elements.push(`<script type="text/plain" id="identiformer-layer-${number}">${base64(await source.layer(number, 0))}</script>`);
  const saved: Saved = { fractions: {}, attributions: Object.fromEntries(source.attributions), maps: Object.fromEntries(source.maps) };
  for (const [index, number] of summary.layers.entries())
    for (const [one, certified] of (reading?.certified[index] ?? []).entries())
      if (certified) saved.fractions[`${number} ${one}`] = base64(await source.fractions(number, one));
  elements.push(`<script type="application/json" id="identiformer-saved">${safeJson(saved)}</script>`);
  save(name, new Blob([page.replace(SERVER_ELEMENT, () => elements.join("\n"))], { type: "text/html" }));
}

/** A small file that `identiformer explore --view` opens. */
export function saveView(name: string, summary: Summary, view: View): void {
  const { model, pair } = summary;
  const [text, generated] = [summary.image ? null : summary.text, summary.answer !== null];
  save(name, new Blob([JSON.stringify({ identiformer_view: 1, model, text, pair, generated, view }, null, 1)], { type: "application/json" }));
}
