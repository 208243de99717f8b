// The local server: opens texts, and runs jobs that take a while.

import type { Attribution } from "./attribution";
import { embeddedJson, type Source, unpackFractions } from "./source";
import type { Certificate, LayerMaps, MovedWeight, PatchedRun, Reading, StepSources, Summary } from "./summary";

export interface TextRequest {
  text: string;
  pair: string | null;
  model: string;
  truncate?: boolean; // cut at the model's limit
}

export interface Example {
  title: string;
  text: string;
  pair: string | null;
}

/** What the server rejected, with what it offers to do instead. */
export class RejectedError extends Error {
  constructor(message: string, readonly offer: string | null) {
    super(message);
  }
}

/** What the server says about itself, and the text that the page opens with. */
export interface ServerInfo extends TextRequest {
  models: string[];
  most_characters: number;
  view?: Record<string, unknown> | null; // that the command was started with
  image?: string | null; // the file that the page shows instead of a text
  examples: Example[];
}

interface JobStatus<Result> {
  job: string;
  state: "waiting" | "running" | "done" | "failed" | "canceled";
  progress: number;
  result: Result | string | null;
}

export interface Running<Result> {
  result: Promise<Result | null>; // null: canceled
  cancel: () => void;
}

export const serverInfo = () => embeddedJson<ServerInfo>("server");

/** A request; if the server rejects it, its sentence becomes the message of the error. */
async function request(path: string, method = "GET", body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { method, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Error("the explorer does not respond; check that its command is still running.");
  }
  if (!response.ok) throw new RejectedError(await response.text(), response.headers.get("identiformer-offer"));
  return response;
}

/** before: the id of the text that this page showed until now. */
export async function openText(text: TextRequest, before?: string, signal?: AbortSignal): Promise<ServedSource> {
  const response = await request("texts", "POST", { ...text, before }, signal);
  return new ServedSource(await response.json());
}

const POLL_INTERVAL = 150; // ms
const BACKGROUND_INTERVAL = 1000; // ms

export class ServedSource implements Source {
  readonly attributions = new Map<number, Attribution>(); // by token
  readonly maps = new Map<string, LayerMaps>(); // computed so far
  sources: StepSources | null = null; // what each token of an answer drew on, if computed

  constructor(readonly summary: Summary & { id: string }) {}

  /** Another attention type of the same text, such as the decoder's. */
  async openKind(kind: string): Promise<ServedSource> {
    const response = await request(`texts/${this.summary.id}/kinds/${encodeURIComponent(kind)}`, "POST");
    return new ServedSource(await response.json());
  }

  async attribution(token: number): Promise<Attribution | null> {
    return this.attributions.get(token) ?? null;
  }

  async layer(number: number, from: number): Promise<Uint8Array> {
    const rows = this.summary.window === null ? "" : `/rows/${from}`;
    const response = await request(`texts/${this.summary.id}/layers/${number}${rows}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  async certified(layer: number, head: number): Promise<Float32Array | null> {
    return unpackFractions(await this.fractions(layer, head), this.summary);
  }

  /** Certified fractions of a head, one byte per weight. */
  async fractions(layer: number, head: number): Promise<Uint8Array> {
    const response = await request(`texts/${this.summary.id}/bounds/${layer}/${head}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  certify(layer: number, head: number, query: number, onProgress: (share: number) => void): Running<Certificate> {
    return this.run({ task: "certify", layer, head, query }, onProgress);
  }

  patch(certificate: Certificate, alternative: string, onProgress: (share: number) => void): Running<PatchedRun> {
    const { layer, head, query, alternatives } = certificate;
    return this.run({ task: "patch", layer, head, query, alternative, row: alternatives[alternative].row }, onProgress);
  }

  /** Moves a share of the weight of a row from one key to another. */
  move(row: { layer: number; head: number; query: number }, source: number, target: number, share: number, onProgress: (share: number) => void): Running<MovedWeight> {
    return this.run({ task: "move", ...row, source, target, share }, onProgress);
  }

  /** What each token of an answer drew on. */
  answerSources(onProgress: (share: number) => void): Running<StepSources> {
    const running = this.run<StepSources>({ task: "answer" }, onProgress);
    running.result.then((sources) => (this.sources = sources), () => undefined);
    return running;
  }

  /** Reads and certifies every head, in the background; reports the reading after each. */
  readHeads(onProgress: (share: number) => void, onReading: (reading: Reading) => void): Running<Reading> {
    return this.run({ task: "read heads" }, onProgress, onReading);
  }

  map(name: string, onProgress: (share: number) => void): Running<LayerMaps> {
    const running = this.run<LayerMaps>({ task: "map", map: name }, onProgress);
    running.result.then((maps) => maps && this.maps.set(name, maps), () => undefined);
    return running;
  }

  attribute(token: number, onProgress: (share: number) => void): Running<Attribution> {
    const running = this.run<Attribution>({ task: "attribute", target: token }, onProgress);
    running.result.then((attribution) => attribution && this.attributions.set(token, attribution), () => undefined);
    return running;
  }

  private run<Result>(task: unknown, onProgress: (share: number) => void, onPartial?: (result: Result) => void): Running<Result> {
    let canceled = false;
    let job = "";
    const cancel = () => {
      canceled = true;
      if (job) request(`jobs/${job}`, "DELETE").catch(() => undefined);
    };
    const leave = () => job && void fetch(`jobs/${job}`, { method: "DELETE", keepalive: true }).catch(() => undefined);
    const poll = async () => {
      let status: JobStatus<Result> = await (await request(`texts/${this.summary.id}/jobs`, "POST", task)).json();
      job = status.job;
      while (status.state === "waiting" || status.state === "running") {
        if (canceled) {
          cancel();
          return null;
        }
        onProgress(status.progress);
        if (status.result !== null) onPartial?.(status.result as Result);
        await new Promise((resume) => setTimeout(resume, onPartial ? BACKGROUND_INTERVAL : POLL_INTERVAL));
        status = await (await request(`jobs/${job}`)).json();
      }
      if (status.state === "failed") throw new Error(String(status.result));
      return status.state === "canceled" ? null : (status.result as Result);
    };
    addEventListener("pagehide", leave); // otherwise the job would run until the server misses the page
    const result = poll();
    result.catch(() => undefined).finally(() => removeEventListener("pagehide", leave));
    return { result, cancel };
  }
}
