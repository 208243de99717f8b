import type { JobState } from "./useJob";

/** How far a job is, with a button that ends it; and why it failed. */
export function Progress({ job, what }: { job: JobState; what: string }) {
  if (job.failed) return <p role="alert" class="alert">{job.failed}</p>;
  if (job.progress === null) return null;
  return (
    <p class="progress">
      <label>{what} <progress max={1} value={job.progress} /></label>{" "}
      <button type="button" onClick={job.cancel}>Cancel</button>
    </p>
  );
}
