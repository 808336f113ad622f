/** http_get against servers that misbehave on purpose. All of them are on 127.0.0.1; names are resolved by the tests. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import type { ToolResult } from '../../model/run-jobs.ts';
import type { Address } from '../../wire/outbound.ts';
import type { AllowedHost } from './allowed-hosts.ts';
import { callTool } from './call.ts';
import { type HttpGetOptions, type HttpGetResult, httpGetTools } from './http-get.ts';
import { ToolSet } from './registry.ts';

const TIMEOUT = { timeout: 20_000 };
const LOOPBACK: Address = { address: '127.0.0.1', family: 4 };
const { timers } = realEnv();

interface Server {
  readonly port: number;
  requests: { readonly url: string; readonly headers: object }[];
}

async function serve(t: TestContext, answer: RequestListener): Promise<Server> {
  const made: Server = { port: 0, requests: [] };
  const server = createServer((request, response) => {
    made.requests.push({ url: request.url ?? '', headers: request.headers });
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return Object.assign(made, { port: (server.address() as AddressInfo).port });
}

const plain: RequestListener = (_request, response) => {
  response.setHeader('content-type', 'text/plain; charset=utf-8');
  response.end('hello');
};

type Resolve = NonNullable<HttpGetOptions['resolve']>;

/** The host of the URL as an entry of the list, with its port and any address, as the tests need it. */
const own = (url: string): AllowedHost => ({
  host: URL.parse(url)?.host ?? 'docs.example',
  allowPrivate: true,
});

function ask(
  url: string,
  hosts: readonly AllowedHost[] = [own(url)],
  resolve: Resolve = async () => [LOOPBACK],
  signal = new AbortController().signal,
): Promise<ToolResult> {
  const [tool] = httpGetTools({ timers, hosts, resolve });
  return callTool(tool!, { url }, { signal, jobId: 'a', tenant: 'default' }, { timers });
}

async function resultOf(made: Promise<ToolResult>): Promise<HttpGetResult> {
  const { ok, text } = await made;
  assert.ok(ok, text);
  return JSON.parse(text) as HttpGetResult;
}

async function refusal(made: Promise<ToolResult>): Promise<string> {
  const { ok, text } = await made;
  assert.ok(!ok, `expected a refusal, got ${text.slice(0, 200)}`);
  return text;
}

describe('an answer', TIMEOUT, () => {
  test('is told with its status, type and text', async (t) => {
    const { port, requests } = await serve(t, plain);
    const result = await resultOf(ask(`http://docs.example:${port}/a/b?c=d#e`));
    assert.deepEqual(result, { status: 200, content_type: 'text/plain; charset=utf-8', text: 'hello' });
    assert.equal(requests[0]?.url, '/a/b?c=d');
    assert.deepEqual(Object.keys(requests[0]?.headers ?? {}).sort(), [
      'accept',
      'accept-encoding',
      'connection',
      'host',
    ]);
  });

  test('may be an error of the server, or empty', async (t) => {
    const { port } = await serve(t, (request, response) => {
      response.statusCode = request.url === '/empty' ? 204 : 404;
      response.setHeader('content-type', 'application/problem+json');
      response.end(request.url === '/empty' ? undefined : '{}');
    });
    const missing = await resultOf(ask(`http://docs.example:${port}/`));
    assert.deepEqual([missing.status, missing.text], [404, '{}']);
    assert.deepEqual(await resultOf(ask(`http://docs.example:${port}/empty`)), { status: 204 });
  });

  test('that never ends is cut, and its connection is closed', async (t) => {
    const closed = Promise.withResolvers<void>();
    const { port } = await serve(t, (_request, response) => {
      response.setHeader('content-type', 'text/plain');
      const more = (): void => {
        while (!response.destroyed && response.write('€'.repeat(10_000)));
      };
      response.on('drain', more);
      response.on('close', closed.resolve);
      more();
    });
    const result = await resultOf(ask(`http://docs.example:${port}/`));
    assert.equal(result.cut_after_bytes, 60 * 1024);
    assert.equal(result.text, '€'.repeat(20 * 1024));
    await closed.promise;
  });

  test('that is no text in UTF-8 is refused', async (t) => {
    const { port } = await serve(t, (request, response) => {
      const [type, body] = JSON.parse(decodeURIComponent((request.url ?? '').slice(1))) as [string, number[]];
      if (type !== '') response.setHeader('content-type', type);
      response.end(Buffer.from(body));
    });
    const of = (type: string, body: number[]) =>
      refusal(ask(`http://docs.example:${port}/${encodeURIComponent(JSON.stringify([type, body]))}`));
    const text = [0x61];
    for (const type of [
      'image/png',
      'application/octet-stream',
      'text/html; charset=iso-8859-1',
      'text/',
      '',
    ])
      assert.match(await of(type, text), /it answered 200 with .* which is no text in UTF-8/, type);
    assert.match(await of('text/plain', [0x61, 0xe4, 0x62]), /not in UTF-8/);
    assert.match(await of('text/plain', [0x61, 0]), /not in UTF-8/);
  });

  test('that is compressed is refused', async (t) => {
    const { port } = await serve(t, (request, response) => {
      response.setHeader('content-encoding', 'gzip');
      plain(request, response);
    });
    assert.match(await refusal(ask(`http://docs.example:${port}/`)), /compressed/);
  });

  test('that does not come is given up when the call is cancelled', async (t) => {
    const job = new AbortController();
    const { port } = await serve(t, () => job.abort());
    assert.equal(
      await refusal(ask(`http://docs.example:${port}/`, undefined, undefined, job.signal)),
      'the call was cancelled',
    );
  });

  test('a redirect is told, not followed', async (t) => {
    const { port, requests } = await serve(t, (request, response) => {
      response.writeHead(302, { location: decodeURIComponent((request.url ?? '').slice(1)) }).end();
    });
    const to = (location: string) =>
      resultOf(ask(`http://docs.example:${port}/${encodeURIComponent(location)}`));
    const evil = 'http://169.254.169.254/latest';
    assert.deepEqual(await to(evil), { status: 302, redirect_to: evil });
    assert.equal((await to('/next?a')).redirect_to, `http://docs.example:${port}/next?a`);
    assert.equal((await to('https://joe:secret@b.example/')).redirect_to, 'https://b.example/');
    assert.equal((await to('http://[')).redirect_to, 'an address that is not valid');
    assert.equal(requests.length, 4);
  });
});

describe('a host', TIMEOUT, () => {
  const never: Resolve = () => assert.fail('the host must not be resolved');

  test('that is not listed is not asked, however it is written', async () => {
    const hosts = [{ host: 'docs.example' }, { host: '*.wiki.example' }];
    for (const url of [
      'http://other.example/',
      'http://docs.example.evil.example/',
      'http://evildocs.example/',
      'http://sub.docs.example/',
      'http://wiki.example/',
      'http://evilwiki.example/',
      'http://wiki.example.evil/',
      'http://.wiki.example/',
      'http://docs.example%2eevil.example/',
      'http://127.0.0.1/',
      'http://2130706433/',
      'http://0x7f.1/',
      'http://[::1]/',
      'http://localhost/',
    ])
      assert.match(await refusal(ask(url, hosts, never)), /not on the list|must be a whole URL/, url);
    assert.match(
      await refusal(ask('http://docs.example@evil.example/', hosts, never)),
      /user name or password/,
    );
    assert.match(await refusal(ask('http://joe:x@docs.example/', hosts, never)), /user name or password/);
    for (const url of [
      'file:///etc/passwd',
      'ftp://docs.example/',
      'docs.example',
      '//docs.example/',
      'data:,x',
      '',
    ])
      assert.match(await refusal(ask(url, hosts, never)), /must be a whole URL/, url);
  });

  test('is found by its exact name or below a domain, in any case and with the root dot', async () => {
    const hosts = [{ host: 'Docs.Example' }, { host: '*.wiki.example' }];
    const asked: string[] = [];
    const resolve: Resolve = async (host) => {
      asked.push(host);
      throw new Error('no such host');
    };
    for (const name of ['docs.example', 'DOCS.example.', 'a.wiki.example', 'a.b.wiki.example'])
      assert.match(await refusal(ask(`http://${name}/`, hosts, resolve)), /could not be resolved/, name);
    assert.equal(asked.length, 4);
  });

  test('is asked at the ports 80 and 443, or at the port that its entry names', async () => {
    const hosts = [{ host: 'docs.example' }, { host: 'api.example:8443' }, { host: '*.wiki.example:81' }];
    const resolve: Resolve = async () => {
      throw new Error('no such host');
    };
    for (const [url, isAsked] of [
      ['http://docs.example/', true],
      ['https://docs.example/', true],
      ['https://docs.example:80/', true],
      ['http://docs.example:8080/', false],
      ['https://docs.example:8443/', false],
      ['https://api.example:8443/', true],
      ['https://api.example/', false],
      ['http://a.wiki.example:81/', true],
      ['http://a.wiki.example/', false],
    ] as const)
      assert.match(await refusal(ask(url, hosts, resolve)), isAsked ? /resolved/ : /not on the list/, url);
  });

  test('with a private address is not connected to, though it is listed', async (t) => {
    const { port, requests } = await serve(t, plain);
    const url = `http://docs.example:${port}/`;
    const listed = [{ host: `docs.example:${port}` }];
    for (const addresses of [
      [LOOPBACK],
      [{ address: '::ffff:127.0.0.1', family: 6 }],
      [{ address: '::1', family: 6 }],
      [{ address: '169.254.169.254', family: 4 }],
      [{ address: '1.1.1.1', family: 4 }, LOOPBACK],
    ])
      assert.match(await refusal(ask(url, listed, async () => addresses)), /an address of a private network/);
    assert.match(
      await refusal(ask(`http://127.0.0.1:${port}/`, [{ host: `127.0.0.1:${port}` }], never)),
      /an address of a private network/,
    );
    assert.equal(requests.length, 0);
    const exact = { host: `127.0.0.1:${port}`, allowPrivate: true };
    assert.equal((await resultOf(ask(`http://127.0.0.1:${port}/`, [exact], never))).text, 'hello');
  });

  test('that changes its address after the check is asked at the address that was checked', async (t) => {
    const { port, requests } = await serve(t, plain);
    let lookups = 0;
    const flipping: Resolve = async () => {
      lookups++;
      return lookups === 1 ? [LOOPBACK] : [{ address: '127.0.0.2', family: 4 }];
    };
    assert.equal((await resultOf(ask(`http://docs.example:${port}/`, undefined, flipping))).text, 'hello');
    assert.deepEqual([lookups, requests.length], [1, 1]);
  });

  test('is resolved and checked again by each call', async (t) => {
    const { port, requests } = await serve(t, plain);
    const [tool] = httpGetTools({
      timers,
      hosts: [{ host: `docs.example:${port}` }],
      resolve: async () => [LOOPBACK],
    });
    const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
    for (let call = 0; call < 2; call++) {
      const { ok } = await callTool(tool!, { url: `http://docs.example:${port}/` }, context, { timers });
      assert.equal(ok, false);
    }
    assert.equal(requests.length, 0);
  });
});

describe('the list of hosts', () => {
  test('without entries there is no tool', () => {
    assert.deepEqual(httpGetTools({ timers, hosts: [] }), []);
  });

  test('names the tool for the model', () => {
    const tools = new ToolSet(
      httpGetTools({ timers, hosts: [{ host: 'a.example' }, { host: '*.b.example' }] }),
    );
    assert.match(
      tools.get('http_get')?.tool.description ?? '',
      /Allowed hosts: a\.example, \*\.b\.example\./,
    );
  });

  test('has no entries that would allow more than they seem to', () => {
    for (const host of [
      '',
      '*',
      '*.',
      '*.com',
      '**.a.example',
      'a.*.example',
      'a.example:0',
      'a.example:65536',
      'a.example:',
      'a.example:80:80',
      '*:80',
      'http://a.example',
      '*.1.1.1.1',
      '10.0.0.0/8',
      'a b',
    ])
      assert.throws(() => httpGetTools({ timers, hosts: [{ host }] }), { code: 'INVALID_PARAMS' }, host);
    assert.throws(() => httpGetTools({ timers, hosts: [{ host: '*.a.example', allowPrivate: true }] }), {
      code: 'INVALID_PARAMS',
      message: /exact host only/,
    });
  });
});
