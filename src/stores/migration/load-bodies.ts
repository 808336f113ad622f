/** Reads the large bodies of jobs, no more of them at a time than memory should hold. */
import type { JobBundle } from '../../core/ports/store.ts';
import type { Body } from '../../model/records.ts';
import type { Contents, LoadedJob } from './contents.ts';

const BODY_BYTES = 8 * 2 ** 20;

const storedBytes = (body: Body | undefined): number => (typeof body === 'object' ? body.bytes : 0);

/** Cuts a page so that the bodies of each piece fit together; a job is never cut. */
export function piecesOf(page: readonly JobBundle[], bodyBytes = BODY_BYTES): JobBundle[][] {
  const pieces: JobBundle[][] = [];
  let left = 0;
  for (const bundle of page) {
    const bytes = storedBytes(bundle.ask.payload) + storedBytes(bundle.job.result);
    const piece = pieces.at(-1);
    if (piece && bytes <= left) piece.push(bundle);
    else pieces.push([bundle]);
    left = (piece && bytes <= left ? left : bodyBytes) - bytes;
  }
  return pieces;
}

export async function* loadedJobs(contents: Contents): AsyncGenerator<readonly LoadedJob[]> {
  for await (const page of contents.jobs()) {
    for (const piece of piecesOf(page)) {
      const loaded: LoadedJob[] = [];
      for (const bundle of piece) loaded.push(await load(contents, bundle));
      yield loaded;
    }
  }
}

async function load(contents: Contents, bundle: JobBundle): Promise<LoadedJob> {
  const { payload } = bundle.ask;
  const { result } = bundle.job;
  return {
    bundle,
    payload: typeof payload === 'object' ? await contents.readBody(payload) : undefined,
    result: typeof result === 'object' ? await contents.readBody(result) : undefined,
  };
}

/** The job with the references of another store. */
export function renamed(bundle: JobBundle, payload: Body | undefined, result: Body | undefined): JobBundle {
  const { ask, job } = bundle;
  return {
    ...bundle,
    ask: payload === undefined ? ask : { ...ask, payload },
    job: result === undefined ? job : { ...job, result },
  };
}
