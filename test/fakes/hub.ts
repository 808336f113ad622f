/** A hub of models on this machine, and a second server that it sends downloads on to. */
import { createHash } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { atEnd } from './pool-kit.ts';

export const SHA = 'a'.repeat(40);

export interface FakeHub {
  readonly url: string;
  /** Server that downloads are redirected to. */
  readonly cdn: string;
  readonly asked: string[];
  /** Fault of the next downloads. */
  how: 'well' | 'short' | 'garbled' | 'twice' | 'gone';
  redirects: boolean;
  /** The hub tags small files with something else than the checksum of their bytes. */
  isSmall: boolean;
}

export async function fakeHub(t: TestContext, files: Readonly<Record<string, Buffer>>): Promise<FakeHub> {
  const asked: string[] = [];
  const hub = { url: '', cdn: '', asked, how: 'well' as FakeHub['how'], redirects: false, isSmall: false };
  const headersOf = (content: Buffer): Record<string, string | number> => ({
    'x-linked-etag': `"${createHash(hub.isSmall ? 'sha1' : 'sha256')
      .update(content)
      .digest('hex')}"`,
    'x-linked-size': content.length,
  });
  hub.url = await listen(t, (request, response) => {
    const url = request.url ?? '';
    asked.push(url);
    const revision = /^\/api\/models\/org\/repo\/revision\/(.+)$/.exec(url)?.[1];
    if (revision !== undefined) {
      const siblings = ['../evil.gguf', 'README.md', ...Object.keys(files)].map((rfilename) => ({
        rfilename,
      }));
      if (revision === 'gone') response.writeHead(404).end();
      else response.end(JSON.stringify({ sha: SHA, siblings, private: false }));
      return;
    }
    const name = decodeURIComponent(url.replace(`/org/repo/resolve/${SHA}/`, ''));
    const content = files[name];
    if (!content) return void response.writeHead(404).end();
    if (hub.redirects) {
      const location = `${hub.cdn}/blob/${name}?signature=x`;
      response.writeHead(302, { ...headersOf(content), location }).end();
      return;
    }
    response.writeHead(200, { ...headersOf(content), 'content-length': content.length }).end(content);
  });
  hub.cdn = await listen(t, (request, response) => {
    asked.push(`cdn ${request.url}`);
    const content = files[/^\/blob\/(.+)\?signature=x$/.exec(request.url ?? '')?.[1] ?? ''];
    if (!content || hub.how === 'gone') return void response.writeHead(403).end();
    if (hub.how === 'twice') return void response.writeHead(302, { location: hub.url }).end();
    if (hub.how === 'garbled') return void response.end(Buffer.alloc(content.length, 'x'));
    response.end(hub.how === 'short' ? content.subarray(1) : content);
  });
  return hub;
}

async function listen(t: TestContext, on: RequestListener): Promise<string> {
  const server = createServer(on);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  atEnd(t, () => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
