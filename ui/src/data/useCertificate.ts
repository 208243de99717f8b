// Certified bounds of the selected row: computed as soon as a row is selected, if a server can, and kept.

import { useEffect, useState } from "preact/hooks";
import type { View } from "../view";
import { ServedSource } from "./server";
import type { Source } from "./source";
import type { Alternative, Certificate } from "./summary";
import { type JobState, useJob } from "./useJob";

const DELAY = 120; // ms: rows that a user passes by are not certified
const FIRST_SHOWN = ["rival", "farthest"];

export interface CertificateState {
  certificate: Certificate | null;
  name: string | null; // of the alternative that is shown
  alternative: Alternative | null;
  choose: (name: string) => void;
  patch: (() => void) | null; // runs the model with the alternative
  job: JobState;
  possible: boolean; // whether this row can be certified here
}

const kept = new WeakMap<Source, Map<string, Certificate>>();

/** What is certified of a text so far, by row. */
export function certificatesOf(source: Source): Map<string, Certificate> {
  let certificates = kept.get(source);
  if (!certificates) {
    certificates = new Map(source.summary.certificates.map((certificate) => [nameOf(certificate), certificate]));
    kept.set(source, certificates);
  }
  return certificates;
}

const nameOf = ({ layer, head, query }: { layer: number; head: number; query: number | null }) => `${layer} ${head} ${query}`;

/** enabled: whether the selected row is that of one token. */
export function useCertificate(source: Source, view: View, enabled: boolean): CertificateState {
  const certificates = certificatesOf(source);
  const job = useJob();
  const [chosen, choose] = useState("");
  const [, setCount] = useState(0);
  const { layer, head, query } = view;
  const of = enabled && query !== null && head >= 0 && layer !== 0 ? nameOf(view) : null;
  const certificate = of === null ? null : (certificates.get(of) ?? null);
  const served = source instanceof ServedSource && source.summary.window === null ? source : null;
  const keep = (found: Certificate) => {
    certificates.set(nameOf(found), found);
    setCount((count) => count + 1);
  };
  useEffect(() => {
    job.cancel();
    if (!served || of === null || certificates.has(of)) return;
    const later = setTimeout(() => job.start((onProgress) => served.certify(layer, head, query!, onProgress), keep), DELAY);
    return () => clearTimeout(later);
  }, [source, of]);
  const names = Object.keys(certificate?.alternatives ?? {});
  const name = [chosen, certificate?.patched_run?.alternative, ...FIRST_SHOWN, ...names].find((option) => option !== undefined && names.includes(option)) ?? null;
  const patched = certificate?.patched_run?.alternative === name;
  return {
    certificate, name, alternative: name === null ? null : certificate!.alternatives[name], choose, job, possible: served !== null && of !== null,
    patch: served && certificate && name !== null && !patched
      ? () => job.start((onProgress) => served.patch(certificate, name, onProgress), (patched_run) => keep({ ...certificate, patched_run }))
      : null,
  };
}
