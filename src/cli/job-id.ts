/**
 * Ids that were cut short, as git takes them: the beginning of an id stands for the job if no other id begins with it.
 * A whole id costs no request more, because the beginning is looked up only if there is no job of that id.
 */
import { ClientError, type OrchdClient } from '../client/client.ts';
import type { JobView } from '../model/http/jobs.ts';
import { durationText } from './text/duration.ts';
import { oneLine } from './text/screen.ts';

const MIN_PREFIX_CHARS = 4;
/** Only so many candidates are listed for an ambiguous beginning. */
const MAX_CANDIDATES = 10;

/** Several jobs have ids that begin with the text; nothing was done to any of them. */
export class AmbiguousId extends Error {
  constructor(text: string, candidates: readonly JobView[], now: number) {
    const lines = candidates
      .slice(0, MAX_CANDIDATES)
      .map(
        (job) =>
          `  ${oneLine(job.job_id)}  ${oneLine(job.state)}, ${oneLine(job.type)}, ${durationText(now - job.created_at)} old`,
      );
    const more = candidates.length > MAX_CANDIDATES ? ['  and others'] : [];
    super([`the ids of several jobs begin with "${text}":`, ...lines, ...more].join('\n'));
  }
}

/** Sends a request about a job; if there is no job of this id, about the only job whose id begins with the text. */
export async function forJob<T>(
  client: OrchdClient,
  text: string,
  send: (id: string) => Promise<T>,
): Promise<T> {
  try {
    return await send(text);
  } catch (error) {
    const isMissing = error instanceof ClientError && error.code === 'NOT_FOUND';
    const id = isMissing && text.length >= MIN_PREFIX_CHARS ? await onlyMatch(client, text) : undefined;
    if (id === undefined) throw error;
    return send(id);
  }
}

async function onlyMatch(client: OrchdClient, text: string): Promise<string | undefined> {
  const candidates = await matchesOf(client, text);
  if (candidates.length > 1) throw new AmbiguousId(text, candidates, Date.now());
  return candidates[0]?.job_id;
}

async function matchesOf(client: OrchdClient, text: string): Promise<readonly JobView[]> {
  try {
    return (await client.list({ id_prefix: text, limit: MAX_CANDIDATES + 1 })).jobs;
  } catch (error) {
    // The text cannot begin an id, or the server is older than this lookup: then it is as if nothing was found.
    if (error instanceof ClientError && error.status === 400) return [];
    throw error;
  }
}
