/** Collects the output of a job for an answer that is not streamed. */
import { OrchdError } from '../../model/errors.ts';
import type { TokenEvent } from '../../model/worker-wire.ts';
import type { JobListener } from './job-sink.ts';
import type { JobResult } from './large-results.ts';
import type { SubmittedJob } from './submitted-job.ts';

/** The result of a job, with the text, the reasoning and the number of the token events of its last attempt. */
export interface JobOutput {
  readonly result: JobResult;
  readonly text: string;
  readonly reasoning: string;
  readonly tokens: number;
}

export class OutputCollector implements JobListener {
  readonly #done: PromiseWithResolvers<JobOutput>;
  #text = '';
  #reasoning = '';
  #tokens = 0;

  constructor(done: PromiseWithResolvers<JobOutput>) {
    this.#done = done;
  }

  token(text: string, delta: TokenEvent['delta']): void {
    this.#text += text;
    this.#reasoning += reasoningOf(delta);
    this.#tokens++;
  }

  reset(): void {
    this.#text = '';
    this.#reasoning = '';
    this.#tokens = 0;
  }

  ended(result: JobResult): void {
    this.#done.resolve({ result, text: this.#text, reasoning: this.#reasoning, tokens: this.#tokens });
  }

  failed(error: OrchdError): void {
    this.#done.reject(error);
  }

  flush(): boolean {
    return true;
  }
}

/** What the model thinks in a piece; empty where it is a piece of something else. */
export function reasoningOf(delta: TokenEvent['delta']): string {
  const reasoning: unknown = delta?.reasoning_content;
  return typeof reasoning === 'string' ? reasoning : '';
}

/** Waits for the end of the job. Gives the job up if the caller disconnects first. */
export async function collectOutput(
  job: SubmittedJob,
  onDisconnect: (run: () => void) => void,
): Promise<JobOutput> {
  const done = Promise.withResolvers<JobOutput>();
  onDisconnect(() => {
    done.reject(new OrchdError('CANCELLED', 'the caller disconnected'));
    job.abandon();
  });
  job.follow(new OutputCollector(done));
  try {
    return await done.promise;
  } finally {
    job.close();
  }
}
