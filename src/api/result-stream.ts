/** Writes the jobs of a batch with their results to a connection, one JSON text a line, as fast as the client reads. */
import type { ServerResponse } from 'node:http';
import type { Timers } from '../kit/env/env.ts';
import type { BatchResult } from '../runtime/batches.ts';
import { jobText } from '../runtime/job-text.ts';
import { NDJSON_TYPE } from '../wire/line-stream.ts';
import { writeInPieces } from '../wire/pieces.ts';

type Page = readonly BatchResult[];

/** Never rejects. An answer that cannot be completed is cut off, which a client can tell from its end. */
export async function writeResults(
  first: IteratorResult<Page, void>,
  pages: AsyncGenerator<Page>,
  response: ServerResponse,
  timers: Timers,
): Promise<void> {
  response.on('error', () => undefined);
  response.writeHead(200, { 'content-type': NDJSON_TYPE });
  try {
    for (let page = first; !page.done; page = await pages.next()) {
      await writePage(page.value, response, timers);
      if (response.destroyed) return;
    }
    response.end();
  } catch {
    response.destroy();
  } finally {
    await pages.return(undefined).catch(() => undefined);
  }
}

async function writePage(page: Page, response: ServerResponse, timers: Timers): Promise<void> {
  let text = '';
  for (const { n, job, payload, result } of page) {
    const numbered = { ...job, n };
    const line = await jobText({ job: numbered, payload, result }, 'later');
    if (typeof line === 'string') {
      text += `${line}\n`;
      continue;
    }
    if (text !== '') response.write(text);
    text = '';
    await writeInPieces(response, [...line.pieces, '\n'], timers).finally(() => line.release());
  }
  if (text !== '') await writeInPieces(response, [text], timers);
}
