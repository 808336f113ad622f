/** An answer in one piece, once the job has ended. */
import { OrchdError } from '../../model/errors.ts';
import type { Asked } from './asked.ts';
import type { JobListener } from './job-sink.ts';

/** The result, and what was said on the way to it. */
export interface Heard {
  readonly result: unknown;
  readonly text: string;
  readonly tokens: number;
}

class WholeAnswer implements JobListener {
  readonly #done: PromiseWithResolvers<Heard>;
  #text = '';
  #tokens = 0;

  constructor(done: PromiseWithResolvers<Heard>) {
    this.#done = done;
  }

  token(text: string): void {
    this.#text += text;
    this.#tokens++;
  }

  reset(): void {
    this.#text = '';
    this.#tokens = 0;
  }

  ended(result: unknown): void {
    this.#done.resolve({ result, text: this.#text, tokens: this.#tokens });
  }

  failed(error: OrchdError): void {
    this.#done.reject(error);
  }

  flush(): boolean {
    return true;
  }
}

/** Waits for the end of the job. A caller that leaves meanwhile, or has left, takes it along. */
export async function wholeAnswer(asked: Asked, whenGone: (run: () => void) => void): Promise<Heard> {
  const done = Promise.withResolvers<Heard>();
  whenGone(() => {
    done.reject(new OrchdError('CANCELLED', 'the caller has left'));
    asked.abandon();
  });
  asked.follow(new WholeAnswer(done));
  try {
    return await done.promise;
  } finally {
    asked.close();
  }
}
