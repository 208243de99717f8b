// The reading of a text: what the page came with, refined by the server while the page is open.

import { useEffect, useState } from "preact/hooks";
import { ServedSource } from "./server";
import type { Source } from "./source";
import type { Reading } from "./summary";
import { type JobState, useJob } from "./useJob";

export interface ReadingState {
  reading: Reading | null;
  job: JobState; // that refines it
  resume: (() => void) | null; // continues after it was canceled
}

/** ready: whether nothing more urgent is computed, such as the bounds of the first row. */
export function useReading(source: Source, ready: boolean): ReadingState {
  const served = source instanceof ServedSource && source.summary.window === null ? source : null;
  const [reading, setReading] = useState<Reading | null>(source.summary.reading);
  const [complete, setComplete] = useState(false);
  const job = useJob();
  const receive = (found: Reading) => setReading((before) => merged(before, found));
  const resume = () =>
    served && job.start((onProgress) => served.readHeads(onProgress, receive), (found) => { receive(found); setComplete(true); });
  useEffect(() => void (ready && resume()), [source, ready]);
  return { reading, job, resume: served && !complete && job.progress === null ? resume : null };
}

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** The new reading, with what has not changed kept as it is, so that nothing is drawn again without need. */
function merged(before: Reading | null, found: Reading): Reading {
  if (!before || same(before, found)) return before ?? found;
  return { ...found, own: same(before.own, found.own) ? before.own : found.own };
}
