// The answer for the selected head and row, in sentences.

import type { CertificateState } from "../data/useCertificate";
import type { Reading, Summary } from "../data/summary";
import { printable, wholePercent } from "../drawing/format";
import type { KeyFacts } from "../drawing/row";
import { headName, type Scene } from "../drawing/scene";
import type { View } from "../view";
import { columnSentence } from "./ColumnView";
import { Progress } from "./Progress";

interface Properties {
  summary: Summary;
  reading: Reading | null;
  view: View;
  scene: Scene | null;
  facts: KeyFacts[] | null;
  selected: number | null;
  certificate: CertificateState;
  served: boolean;
  columns: boolean; // whether the selected token shows its column
  onMove: (() => void) | null; // opens what moves weight of the row; null: it cannot be moved
}

export function Answer({ summary, reading, view, scene, facts, selected, certificate, served, columns, onMove }: Properties) {
  const layer = summary.layers.indexOf(view.layer);
  const sentence = view.head >= 0 ? reading?.head_sentences[layer]?.[view.head] : null;
  const first = summary.first.layer === view.layer && summary.first.head === view.head;
  const name = headName(view);
  return (
    <section class="answer" aria-label="answer">
      <h2 class="selected-head">{name[0].toUpperCase() + name.slice(1)}{sentence ? ": " : ""}<span>{printable(sentence ?? "")}</span>{first && summary.why && <small> {summary.why}</small>}</h2>
      <div class="row-answer" aria-live="polite">{rowAnswer()}<Progress job={certificate.job} activity={certificate.certificate ? "running the model" : "computing certified bounds"} /></div>
    </section>
  );

  function rowAnswer() {
    if (view.layer === 0 || view.head < 0) return <p>Bounds and contributions are those of single heads: select one to see what may be read from its rows.</p>;
    if (!facts || selected === null || !scene) return <p>Select a token of the text: its row shows where it attends.</p>;
    if (columns) return <p>{columnSentence(scene, view)}</p>;
    const found = certificate.certificate;
    if (found) return <p>{[...found.sentences, ...(found.patched_run?.sentences ?? [])].map((line) => <>{printable(line)} </>)}{onMove && <button type="button" class="move-button" onClick={onMove}>Move its weight elsewhere</button>}</p>;
    const { key, weight, contribution, own } = facts.reduce((largest, other) => (other.weight > largest.weight ? other : largest));
    const row = scene.rows[selected];
    const missing = row.members.length > 1 ? "Bounds are those of single tokens; turn off whole words to see them."
      : certificate.job.progress !== null || certificate.possible ? "" : served ? "" : "This file has no certified bounds of this row; identiformer explore computes them.";
    return (
      <p>
        ‘<bdi>{row.label}</bdi>’ at {row.members[0]} attends most to ‘<bdi>{key.label}</bdi>’ at {key.members[0]} ({weight.toFixed(2)})
        {contribution !== null && <>, which contributes {wholePercent(contribution)} of what the head writes</>}
        {own !== null && <>; {wholePercent(own)} of its vector is attributed to its own token</>}. {missing}
      </p>
    );
  }
}
