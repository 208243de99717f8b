import type { JobState } from "../data/useJob";

/** The progress of a job with a button to cancel it, or the reason why it failed. */
export function Progress({ job, activity }: { job: JobState; activity: string }) {
  if (job.failed) return <p role="alert" class="alert">{job.failed}</p>;
  if (job.progress === null) return null;
  return (
    <p class="progress">
      <label>{activity} <progress max={1} value={job.progress} /></label>{" "}
      <button type="button" onClick={job.cancel}>Cancel</button>
    </p>
  );
}
