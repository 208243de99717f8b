// The numbers about each head of a text, some of which a server computes: the reading as a text opens, others on request.

import { useEffect, useState } from "preact/hooks";
import { ServedSource } from "./server";
import type { Source } from "./source";
import type { Coloring, PerHead, Reading } from "./summary";
import { type JobState, useJob } from "./useJob";

/** What a server computes in addition to the summary of a text. */
export const ON_REQUEST: Coloring[] = ["readable", "contributing", "sink_share", "certified_rows"];

export interface HeadNumbers {
  numbers: Partial<Record<Coloring, PerHead | null>>; // null: not computed yet
  sentences: string[]; // of the reading
  reading: JobState;
  job: JobState; // of what is computed on request
  compute: (() => void) | null; // the number that heads are colored by, if it is computed on request
}

export function useHeadNumbers(source: Source, color: Coloring): HeadNumbers {
  const served = source instanceof ServedSource ? source : null;
  const recorded = served && served.summary.window === null; // of a long text, there are no weights to read
  const [read, setRead] = useState<Reading | null>(null);
  const [certified, setCertified] = useState<PerHead | null>(null);
  const [reading, job] = [useJob(), useJob()];
  useEffect(() => {
    if (recorded) reading.start((onProgress) => served.read(false, onProgress), (found) => setRead((before) => before ?? found));
  }, [source]);
  const requested: HeadNumbers["numbers"] = {
    ...(recorded ? { readable: null, contributing: null, sink_share: null } : {}),
    ...source.summary.numbers,
    ...read?.numbers,
    ...(served ? { certified_rows: certified } : {}),
  };
  const begin = served && {
    readable: () => job.start((onProgress) => served.read(true, onProgress), setRead),
    certified_rows: () => job.start((onProgress) => served.certifyHeads(onProgress), setCertified),
  }[color as string];
  return { numbers: requested, sentences: read?.sentences ?? [], reading, job, compute: begin && !requested[color] ? begin : null };
}
