// What this text's attention may be taken to mean: one sentence, and how many heads are of which category.

import type { ReadingState } from "../data/useReading";
import { CATEGORIES, type Summary } from "../data/summary";
import { printable } from "../drawing/format";
import { Progress } from "./Progress";
import { Term } from "./Term";

/** onLonger: runs a text that is longer than a head is wide. */
export function Band({ summary, state, onLonger }: { summary: Summary; state: ReadingState; onLonger?: () => void }) {
  const { reading, job, resume } = state;
  const certified = (reading?.certified ?? []).flat();
  const done = certified.filter(Boolean).length;
  // A head that is not certified can still turn out undetermined, so it is counted only if no head is certified at all.
  const heads = (reading?.categories ?? []).flat().filter((_, index) => done === 0 || certified[index]);
  const counts = CATEGORIES.map((category) => ({ category, count: heads.filter((other) => other === category).length })).filter(({ count }) => count > 0);
  const left = done === 0 ? 0 : certified.length - done;
  return (
    <section class="band" aria-label="this text">
      <p class="finding" role="status"><b class="label">This text</b> {printable([summary.determined, ...(reading?.sentences ?? ["Of a text this long, only effective attention is known."])].join(" "))} {onLonger && summary.numbers.nullity?.flat().every((nullity) => nullity === 0) && <button type="button" onClick={onLonger}>Try a longer text</button>}</p>
      {counts.length > 0 && (
        <div class="categories">
          <div class={`stacked ${done === 0 ? "provisional" : ""}`} aria-hidden="true">
            {counts.map(({ category, count }) => <i class={`part ${category}`} style={{ flexGrow: count }} />)}
            {left > 0 && <i style={{ flexGrow: left }} />}
          </div>
          <ul>
            <li class="note">heads by the largest part of their weight:</li>
            {counts.map(({ category, count }) => (
              <li><i class={`swatch part ${category}`} aria-hidden="true" /> <b>{count}</b> {category} <Term name={`${category} heads`} terms={summary.terms} /></li>
            ))}
            {done < certified.length && <li class="note">{done === 0 ? "before certification: any head can still turn out undetermined" : `${left} not certified yet`}</li>}
            {resume && <li><button type="button" onClick={resume}>Certify all heads</button></li>}
            {(job.progress !== null || job.failed) && <li><Progress job={job} activity="reading all heads" /></li>}
          </ul>
        </div>
      )}
    </section>
  );
}
