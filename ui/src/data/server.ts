// The local server: opens texts, and runs jobs that take a while.

import type { Attribution } from "./attribution";
import { embeddedJson, type Source } from "./source";
import type { Certificate, PatchedRun, PerHead, Reading, Summary } from "./summary";

export interface TextRequest {
  text: string;
  pair: string | null;
  model: string;
}

/** What the server says about itself, and the text that the page opens with. */
export interface ServerInfo extends TextRequest {
  models: string[];
  most_characters: number;
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
async function request(path: string, method = "GET", body?: unknown): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Error("the explorer does not respond; check that its command is still running.");
  }
  if (!response.ok) throw new Error(await response.text());
  return response;
}

/** before: the id of the text that this page showed until now. */
export async function openText(text: TextRequest, before?: string): Promise<ServedSource> {
  const response = await request("texts", "POST", { ...text, before });
  return new ServedSource(await response.json());
}

const POLL_INTERVAL = 150; // ms

export class ServedSource implements Source {
  private computed: Attribution | null = null;

  constructor(readonly summary: Summary & { id: string }) {}

  /** Another attention type of the same text, such as the decoder's. */
  async openKind(kind: string): Promise<ServedSource> {
    const response = await request(`texts/${this.summary.id}/kinds/${encodeURIComponent(kind)}`, "POST");
    return new ServedSource(await response.json());
  }

  async attribution(): Promise<Attribution | null> {
    return this.computed;
  }

  async layer(number: number, from: number): Promise<Uint8Array> {
    const rows = this.summary.window === null ? "" : `/rows/${from}`;
    const response = await request(`texts/${this.summary.id}/layers/${number}${rows}`);
    return new Uint8Array(await response.arrayBuffer());
  }

  certify(layer: number, head: number, query: number, onProgress: (share: number) => void): Running<Certificate> {
    return this.run({ task: "certify", layer, head, query }, onProgress);
  }

  patch(certificate: Certificate, alternative: string, onProgress: (share: number) => void): Running<PatchedRun> {
    const { layer, head, query, alternatives } = certificate;
    return this.run({ task: "patch", layer, head, query, alternative, row: alternatives[alternative].row }, onProgress);
  }

  /** ownContent: whether to compute how much of each key's vector is its own token, which takes longer. */
  read(ownContent: boolean, onProgress: (share: number) => void): Running<Reading> {
    return this.run({ task: "read", own_content: ownContent }, onProgress);
  }

  certifyHeads(onProgress: (share: number) => void): Running<PerHead> {
    return this.run({ task: "certify heads" }, onProgress);
  }

  attribute(onProgress: (share: number) => void): Running<Attribution> {
    const running = this.run<Attribution>({ task: "attribute" }, onProgress);
    running.result.then((attribution) => (this.computed = attribution), () => undefined);
    return running;
  }

  private run<Result>(task: unknown, onProgress: (share: number) => void): Running<Result> {
    let canceled = false;
    let job = "";
    const cancel = () => {
      canceled = true;
      if (job) request(`jobs/${job}`, "DELETE").catch(() => undefined);
    };
    const poll = async () => {
      let status: JobStatus<Result> = await (await request(`texts/${this.summary.id}/jobs`, "POST", task)).json();
      job = status.job;
      while (status.state === "waiting" || status.state === "running") {
        if (canceled) {
          cancel();
          return null;
        }
        onProgress(status.progress);
        await new Promise((resume) => setTimeout(resume, POLL_INTERVAL));
        status = await (await request(`jobs/${job}`)).json();
      }
      if (status.state === "failed") throw new Error(String(status.result));
      return status.state === "canceled" ? null : (status.result as Result);
    };
    return { result: poll(), cancel };
  }
}
