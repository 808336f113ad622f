/** The file tools against a model that tries to leave its folder, and a folder that is prepared to help it. */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { realEnv } from '../../kit/env/real.ts';
import type { ToolResult } from '../../model/run-jobs.ts';
import { callTool } from './call.ts';
import { type FileToolsOptions, fileTools } from './files.ts';
import { ToolSet } from './registry.ts';

/** An implementation that waits for a pipe would wait for ever. */
const TIMEOUT = { timeout: 20_000 };
const SECRET = 'the text of a file outside';
const { timers, random } = realEnv();

interface Folder {
  readonly root: string;
  /** A folder beside the root, with a file `secret` in it. */
  readonly outside: string;
  /** Calls a tool with the arguments as a model would write them. */
  readonly call: (name: string, args: object) => Promise<ToolResult>;
  readonly text: (name: string, args: object) => Promise<string>;
  readonly refusal: (name: string, args: object) => Promise<string>;
}

function prepare(t: TestContext, options: Partial<FileToolsOptions> = {}): Folder {
  const base = fs.mkdtempSync(join(tmpdir(), 'orchd-tools-'));
  t.after(() => fs.rmSync(base, { recursive: true, force: true }));
  const [root, outside] = [join(base, 'root'), join(base, 'outside')];
  for (const folder of [root, outside]) fs.mkdirSync(folder);
  fs.writeFileSync(join(outside, 'secret'), SECRET);
  const tools = new ToolSet(fileTools({ root, random, mayWrite: true, ...options }));
  const call = async (name: string, args: object): Promise<ToolResult> => {
    const { tool, check } = tools.get(name)!;
    const checked = check(JSON.stringify(args));
    if (!checked.ok) return { ok: false, text: checked.message, why: 'failed', started: false };
    const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
    return callTool(tool, checked.args, context, { timers });
  };
  const refusal = async (name: string, args: object): Promise<string> => {
    const { ok, text } = await call(name, args);
    assert.ok(!ok, `expected a refusal of ${JSON.stringify(args).slice(0, 200)}, got ${text.slice(0, 200)}`);
    for (const place of [base, '/proc'])
      assert.ok(!text.includes(place), `the refusal tells a path: ${text}`);
    return text;
  };
  const text = async (name: string, args: object): Promise<string> => {
    const made = await call(name, args);
    assert.ok(made.ok, made.text);
    return made.text;
  };
  return { root, outside, call, text, refusal };
}

/** The number of descriptors that this process has open. */
const openFiles = (): number => fs.readdirSync('/proc/self/fd').length;

const makePipe = (path: string): void => void execFileSync('mkfifo', [path]);

describe('the tools of a folder', () => {
  test('write only if they may', () => {
    const names = (mayWrite: boolean) =>
      fileTools({ root: tmpdir(), random, mayWrite }).map(({ name }) => name);
    assert.deepEqual(names(false), ['list_files', 'read_file', 'search_files']);
    assert.deepEqual(names(true), ['list_files', 'read_file', 'search_files', 'write_file']);
    assert.equal(fileTools({ root: tmpdir(), random }).length, 3);
  });

  test('say what may be repeated', () => {
    const effects = fileTools({ root: tmpdir(), random, mayWrite: true }).map(({ effect }) => effect);
    assert.deepEqual(effects, ['pure', 'pure', 'pure', 'idempotent']);
  });

  test('need a root that is a folder', (t) => {
    const { outside } = prepare(t);
    for (const root of [join(outside, 'none'), join(outside, 'secret')])
      assert.throws(() => fileTools({ root, random }), {
        code: 'INVALID_PARAMS',
        message: /must be a folder/,
      });
  });

  test('have a root that may be reached through a link', async (t) => {
    const { root, outside } = prepare(t);
    fs.symlinkSync(outside, join(root, 'link'));
    const [, read] = fileTools({ root: join(root, 'link'), random });
    const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
    assert.equal((await callTool(read!, { path: 'secret' }, context, { timers })).text, SECRET);
  });

  test('leave no descriptor open', async (t) => {
    const { root, call, outside } = prepare(t);
    fs.writeFileSync(join(root, 'a'), 'x');
    fs.symlinkSync(outside, join(root, 'link'));
    const before = openFiles();
    for (const path of ['a', 'none', 'link', 'link/secret', '.'])
      for (const name of ['list_files', 'read_file', 'search_files', 'write_file'])
        await call(name, { path, ...(/search|write/.test(name) && { text: 'x' }) });
    assert.equal(openFiles(), before);
  });
});

describe('a path that leaves the folder', TIMEOUT, () => {
  const everywhere = async (folder: Folder, path: string, expected: RegExp): Promise<void> => {
    for (const name of ['list_files', 'read_file', 'search_files', 'write_file']) {
      const args = { path, ...(/search|write/.test(name) && { text: 'file outside' }) };
      assert.match(await folder.refusal(name, args), expected, `${name} ${path}`);
    }
    assert.deepEqual(fs.readdirSync(folder.outside), ['secret']);
    assert.equal(fs.readFileSync(join(folder.outside, 'secret'), 'utf8'), SECRET);
  };

  test('by .., from the top, with a zero byte or without end is refused', async (t) => {
    const folder = prepare(t);
    fs.mkdirSync(join(folder.root, 'sub'));
    for (const path of [
      '../outside/secret',
      'sub/../../outside/secret',
      './../outside',
      'sub/..',
      '..',
      'a/../b',
    ])
      await everywhere(folder, path, /may not contain "\.\."/);
    for (const path of ['/etc/passwd', '//etc/passwd', join(folder.outside, 'secret')]) {
      await everywhere(folder, path, /without a leading "\/"/);
    }
    await everywhere(folder, 'a\0b', /zero byte/);
    await everywhere(folder, 'x/'.repeat(2000), /at most 1000 characters|not of a folder/);
    await everywhere(folder, `${'x/'.repeat(400)}y`, /at most 64 parts/);
    await everywhere(folder, 'y'.repeat(300), /too long/);
  });

  test('through a link is refused, be it the file or a folder above it', async (t) => {
    const folder = prepare(t);
    const { root, outside } = folder;
    fs.mkdirSync(join(root, 'sub'));
    fs.symlinkSync(outside, join(root, 'folder-link'));
    fs.symlinkSync('../../outside', join(root, 'sub', 'relative'));
    fs.symlinkSync(join(outside, 'secret'), join(root, 'file-link'));
    fs.symlinkSync('/proc/self/root', join(root, 'magic'));
    fs.symlinkSync('loop', join(root, 'loop'));
    for (const path of ['folder-link', 'sub/relative', 'file-link', 'magic', 'loop'])
      await everywhere(folder, path, /links are not followed|is no folder|no file/);
    for (const path of ['folder-link/secret', 'folder-link/new', 'sub/relative/secret', 'magic/etc/passwd'])
      await everywhere(folder, path, /links are not followed|does not exist|is no folder/);
  });

  test('a link within the folder is not followed either', async (t) => {
    const { root, refusal } = prepare(t);
    fs.mkdirSync(join(root, 'sub'));
    fs.writeFileSync(join(root, 'sub', 'a'), 'x');
    fs.symlinkSync('sub', join(root, 'link'));
    assert.match(await refusal('read_file', { path: 'link/a' }), /links are not followed/);
    assert.match(await refusal('list_files', { path: 'link' }), /links are not followed/);
  });

  test('a link that takes the place of a folder while a file is written gets nothing', async (t) => {
    let swap = (): void => undefined;
    const swapping = {
      ...random,
      hex: (bytes: number) => {
        swap();
        return random.hex(bytes);
      },
    };
    const { root, outside, refusal } = prepare(t, { random: swapping });
    fs.mkdirSync(join(root, 'sub'));
    // Called between the check of the folder and the creation of the file in it.
    swap = () => {
      fs.renameSync(join(root, 'sub'), join(root, 'moved'));
      fs.symlinkSync(outside, join(root, 'sub'));
    };
    fs.utimesSync(outside, 1, 1);
    assert.match(await refusal('write_file', { path: 'sub/secret', text: 'mine' }), /links are not followed/);
    assert.equal(fs.statSync(outside).mtimeMs, 1000, 'not even a temporary file was made outside');
    assert.equal(fs.readFileSync(join(outside, 'secret'), 'utf8'), SECRET);
    assert.deepEqual(fs.readdirSync(outside), ['secret']);
    assert.deepEqual(fs.readdirSync(join(root, 'moved')), [], 'the temporary file is removed');
  });

  test('a link that is swapped in between two calls of the system is not followed', async (t) => {
    const { root, outside, call } = prepare(t);
    fs.mkdirSync(join(root, 'sub'));
    fs.writeFileSync(join(root, 'sub', 'secret'), 'inside');
    fs.symlinkSync(outside, join(root, 'link'));
    // Another process exchanges the two as fast as it can, while this one reads.
    const swapper = `
      const fs = require('node:fs');
      const [root] = process.argv.slice(1);
      process.send('ready');
      for (let at = 0; at < 1e6; at++) {
        fs.renameSync(root + '/sub', root + '/real');
        fs.renameSync(root + '/link', root + '/sub');
        fs.renameSync(root + '/sub', root + '/link');
        fs.renameSync(root + '/real', root + '/sub');
      }`;
    const child = spawn(process.execPath, ['-e', swapper, root], {
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    t.after(() => child.kill('SIGKILL'));
    await new Promise((resolve) => child.once('message', resolve));
    let inside = 0;
    for (let at = 0; at < 2000; at++) {
      const { ok, text } = await call('read_file', { path: 'sub/secret' });
      assert.ok(!text.includes(SECRET));
      if (ok) inside++;
      if (at % 10 === 0) await call('write_file', { path: 'sub/new', text: 'mine' });
    }
    assert.ok(inside > 0, 'the file is read while it is there');
    child.kill('SIGKILL');
    assert.deepEqual(fs.readdirSync(outside), ['secret']);
  });
});

describe('what is no file', TIMEOUT, () => {
  test('is refused without waiting for it: pipes, sockets, devices', async (t) => {
    const { root, refusal, text } = prepare(t);
    makePipe(join(root, 'pipe'));
    const server = createServer().listen(join(root, 'socket'));
    t.after(() => server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    for (const path of ['pipe', 'socket']) {
      assert.match(await refusal('read_file', { path }), /is no file that can be read/);
      assert.match(await refusal('list_files', { path }), /is no folder/);
      assert.match(await refusal('search_files', { path, text: 'a' }), /is no folder/);
      assert.match(await refusal('write_file', { path, text: 'a' }), /is no file, and is not replaced/);
      assert.match(await refusal('read_file', { path: `${path}/a` }), /is no folder/);
    }
    assert.match(await text('search_files', { text: 'a' }), /2 entries were not searched/);
    const device = fileTools({ root: '/dev', random })[1]!;
    const context = { signal: new AbortController().signal, jobId: 'a', tenant: 'default' };
    for (const path of ['zero', 'random'])
      assert.match(
        (await callTool(device, { path }, context, { timers })).text,
        /is no file that can be read/,
      );
  });

  test('a folder cannot be read or replaced', async (t) => {
    const { root, refusal } = prepare(t);
    fs.mkdirSync(join(root, 'sub'));
    assert.match(await refusal('read_file', { path: 'sub' }), /is no file/);
    assert.match(await refusal('read_file', { path: '' }), /is no file/);
    assert.match(await refusal('write_file', { path: 'sub', text: '' }), /is not replaced/);
    for (const path of ['', '.', 'sub/', 'sub/.', './'])
      assert.match(await refusal('write_file', { path, text: '' }), /must be that of a file/, path);
  });
});

describe('read_file', TIMEOUT, () => {
  test('returns a small file as it is', async (t) => {
    const { root, text, refusal } = prepare(t);
    fs.mkdirSync(join(root, 'sub'));
    fs.writeFileSync(join(root, 'sub', 'a.txt'), 'grün\n');
    fs.writeFileSync(join(root, 'empty'), '');
    assert.equal(await text('read_file', { path: './sub//a.txt' }), 'grün\n');
    assert.equal(await text('read_file', { path: 'empty' }), '');
    assert.match(await refusal('read_file', { path: 'sub/b.txt' }), /^"sub\/b\.txt" does not exist$/);
  });

  test('returns a file of gigabytes in parts', async (t) => {
    const { root, text } = prepare(t);
    const size = 5 * 2 ** 30;
    const fd = fs.openSync(join(root, 'huge'), 'w');
    fs.writeSync(fd, 'a'.repeat(100), 0);
    fs.writeSync(fd, 'z'.repeat(100), size - 100);
    fs.closeSync(fd);
    const part = await text('read_file', { path: 'huge', max_bytes: 64 });
    assert.equal(part, `${'a'.repeat(64)}\n[bytes 0 to 64 of ${size}; go on with offset 64]`);
    const end = await text('read_file', { path: 'huge', offset: size - 5 });
    assert.equal(end, `zzzzz\n[bytes ${size - 5} to ${size} of ${size}; this is the end of the file]`);
    assert.equal(await text('read_file', { path: 'huge', offset: size }), `[the file ends at byte ${size}]`);
    const far = Number.MAX_SAFE_INTEGER;
    assert.equal(await text('read_file', { path: 'huge', offset: far }), `[the file ends at byte ${size}]`);
  });

  test('cuts no character in two, so that the parts make up the file', async (t) => {
    const { root, text } = prepare(t);
    const whole = 'a€😀ä'.repeat(50);
    fs.writeFileSync(join(root, 'a'), whole);
    let read = '';
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const part: string = await text('read_file', { path: 'a', offset, max_bytes: 17 });
      const at = part.lastIndexOf('\n[bytes ');
      read += part.slice(0, at);
      const next = /offset (\d+)/.exec(part.slice(at));
      offset = next ? Number(next[1]) : undefined;
    }
    assert.equal(read, whole);
    for (let offset = 1; offset < 10; offset++)
      assert.doesNotMatch(await text('read_file', { path: 'a', offset }), /\ufffd/);
  });

  test('says of a binary file that it is one', async (t) => {
    const { root, refusal } = prepare(t);
    const binary = { zero: [0x61, 0, 0x62], latin: [0x67, 0x72, 0xfc, 0x6e], half: [0x61, 0xe2, 0x82] };
    for (const [name, bytes] of Object.entries(binary)) {
      fs.writeFileSync(join(root, name), Buffer.from(bytes));
      assert.match(
        await refusal('read_file', { path: name }),
        /is a binary file of \d bytes, or no text/,
        name,
      );
    }
    fs.writeFileSync(join(root, 'rubbish'), Buffer.alloc(100_000, 0x80));
    for (const offset of [0, 1, 5000])
      assert.match(await refusal('read_file', { path: 'rubbish', offset, max_bytes: 16 }), /binary/);
  });

  test('has bounds', async (t) => {
    const { refusal } = prepare(t);
    for (const args of [
      { max_bytes: 2 ** 30 },
      { max_bytes: 0 },
      { offset: -1 },
      { offset: 1.5 },
      { offset: 1e300 },
    ])
      assert.match(await refusal('read_file', { path: 'a', ...args }), /^"(max_bytes|offset)" must be/);
  });
});

describe('list_files', TIMEOUT, () => {
  test('tells names, kinds and sizes, in order', async (t) => {
    const { root, text } = prepare(t);
    fs.writeFileSync(join(root, 'b'), 'xyz');
    fs.mkdirSync(join(root, 'c'));
    fs.symlinkSync('/etc/passwd', join(root, 'a'));
    makePipe(join(root, 'd'));
    fs.writeFileSync(join(root, 'e\n"'), '');
    assert.deepEqual(JSON.parse(await text('list_files', {})), {
      path: '.',
      entries: [
        { name: 'a', kind: 'link' },
        { name: 'b', kind: 'file', size_bytes: 3 },
        { name: 'c', kind: 'folder' },
        { name: 'd', kind: 'other' },
        { name: 'e\n"', kind: 'file', size_bytes: 0 },
      ],
    });
    assert.deepEqual(JSON.parse(await text('list_files', { path: 'c' })), { path: 'c', entries: [] });
  });

  test('shows and reads only so many entries of a large folder', async (t) => {
    const { root, text, refusal } = prepare(t, { maxFolderEntries: 250 });
    const fill = (count: number): void => {
      for (let at = 0; at < count; at++) fs.closeSync(fs.openSync(join(root, `file-${at}`), 'w'));
    };
    const list = async (args: object) => JSON.parse(await text('list_files', args));
    fill(250);
    const whole = await list({});
    assert.deepEqual([whole.entries.length, whole.not_shown, whole.note], [200, 50, undefined]);
    fill(251);
    const part = await list({ limit: 3 });
    assert.deepEqual([part.entries.length, part.not_shown], [3, 247]);
    assert.match(part.note, /more than 250 entries/);
    assert.match(await text('search_files', { text: 'a' }), /so many entries that only some were searched/);
    assert.match(await refusal('list_files', { limit: 501 }), /"limit" must be at most 500/);
  });
});

describe('search_files', TIMEOUT, () => {
  test('finds lines in the folder and below it', async (t) => {
    const { root, text } = prepare(t);
    fs.mkdirSync(join(root, 'a', 'b'), { recursive: true });
    fs.writeFileSync(join(root, 'one.txt'), 'first\nneedle and needle\n\nNeedle\n');
    fs.writeFileSync(join(root, 'a', 'b', 'two.txt'), 'a (needle)');
    fs.writeFileSync(join(root, 'binary'), 'needle\0');
    const found = async (args: object) => JSON.parse(await text('search_files', args));
    assert.deepEqual(await found({ text: 'needle' }), {
      matches: [
        { path: 'one.txt', line: 2, text: 'needle and needle' },
        { path: 'a/b/two.txt', line: 1, text: 'a (needle)' },
      ],
      files_searched: 2,
      notes: ['1 entries were not searched: binary, links, or not readable'],
    });
    const lines = (await found({ text: 'NEEDLE', ignore_case: true })).matches.map(
      ({ line }: { line: number }) => line,
    );
    assert.deepEqual(lines, [2, 4, 1]);
    assert.equal((await found({ text: '(needle)', path: 'a' })).matches.length, 1);
    assert.deepEqual((await found({ text: 'n.*e' })).matches, []);
  });

  test('does not follow links out of the folder', async (t) => {
    const { root, outside, text } = prepare(t);
    fs.symlinkSync(outside, join(root, 'folder'));
    fs.symlinkSync(join(outside, 'secret'), join(root, 'file'));
    assert.deepEqual(JSON.parse(await text('search_files', { text: 'outside' })).matches, []);
  });

  test('shows a part of a long line, with letters that change their length too', async (t) => {
    const { root, text } = prepare(t);
    fs.writeFileSync(join(root, 'long'), `${'x'.repeat(50_000)}needle${'y'.repeat(50_000)}`);
    fs.writeFileSync(join(root, 'turkish'), `${'İ'.repeat(20)}\nNEEDLE`);
    const { matches } = JSON.parse(await text('search_files', { text: 'needle', ignore_case: true }));
    assert.ok(matches[0].text.length <= 202 && /^…x+needley+…$/.test(matches[0].text));
    assert.deepEqual([matches[1].line, matches[1].text], [2, 'needle']);
  });

  test('ends at each of its bounds, and says so', async (t) => {
    const limited = async (searchLimits: object, expected: RegExp, count: number): Promise<void> => {
      const { root, text } = prepare(t, { searchLimits });
      for (const folder of ['a', 'b', 'c']) {
        fs.mkdirSync(join(root, folder, 'deep'), { recursive: true });
        fs.writeFileSync(join(root, folder, '1'), `needle\n${'x'.repeat(93)}\nneedle`);
      }
      fs.writeFileSync(join(root, 'a', 'deep', '2'), 'needle');
      const { matches, notes } = JSON.parse(await text('search_files', { text: 'needle' }));
      assert.match(notes.join(), expected);
      assert.equal(matches.length, count);
    };
    await limited({}, /^$/, 7);
    await limited({ maxMatches: 3 }, /ended after 3 matches/, 3);
    await limited({ maxFiles: 2 }, /only 2 files/, 3);
    await limited({ maxBytes: 50 }, /only 50 bytes/, 2);
    await limited({ maxFileBytes: 50 }, /larger than 50 bytes only the beginning/, 4);
    await limited({ maxFolders: 2 }, /only 2 folders/, 2);
    await limited({ maxLevels: 1 }, /more than 1 levels down/, 6);
  });

  test('stops when the call is cancelled', async (t) => {
    const { root } = prepare(t);
    fs.writeFileSync(join(root, 'a'), 'needle');
    const search = fileTools({ root, random })[2]!;
    const context = { signal: AbortSignal.abort(new Error('cancelled')), jobId: 'a', tenant: 'default' };
    await assert.rejects(async () => search.run({ text: 'needle' } as never, context), /cancelled/);
  });

  test('takes one line of plain text', async (t) => {
    const { refusal } = prepare(t);
    for (const text of ['', 'a\nb', 'x'.repeat(201)])
      assert.match(await refusal('search_files', { text }), /^"text" must/);
  });
});

describe('write_file', TIMEOUT, () => {
  test('creates a file for its owner, or replaces it with its permissions', async (t) => {
    const { root, text } = prepare(t);
    fs.mkdirSync(join(root, 'sub'));
    const path = join(root, 'sub', 'a.txt');
    for (const content of ['grün', '', 'grün'])
      assert.match(
        await text('write_file', { path: 'sub/a.txt', text: content }),
        /^wrote \d bytes to "sub\/a\.txt"$/,
      );
    assert.equal(fs.readFileSync(path, 'utf8'), 'grün');
    assert.equal(fs.statSync(path).mode & 0o777, 0o600);
    fs.chmodSync(path, 0o644);
    await text('write_file', { path: 'sub/a.txt', text: 'blau' });
    assert.equal(fs.statSync(path).mode & 0o777, 0o644);
    assert.deepEqual(fs.readdirSync(join(root, 'sub')), ['a.txt'], 'no temporary file is left');
  });

  test('replaces a file as a whole: who has it open keeps the old content', async (t) => {
    const { root, outside, text } = prepare(t);
    fs.writeFileSync(join(root, 'a'), 'old');
    const fd = fs.openSync(join(root, 'a'), 'r');
    t.after(() => fs.closeSync(fd));
    fs.linkSync(join(outside, 'secret'), join(root, 'hard'));
    for (const path of ['a', 'hard']) await text('write_file', { path, text: 'new' });
    assert.equal(fs.readFileSync(fd, 'utf8'), 'old');
    assert.equal(
      fs.readFileSync(join(outside, 'secret'), 'utf8'),
      SECRET,
      'a second name of a file is cut off',
    );
  });

  test('leaves a link, a read-only file and a missing folder as they are', async (t) => {
    const { root, outside, refusal } = prepare(t);
    fs.symlinkSync(join(outside, 'secret'), join(root, 'link'));
    fs.symlinkSync(join(outside, 'new'), join(root, 'dangling'));
    fs.writeFileSync(join(root, 'fixed'), 'old', { mode: 0o444 });
    for (const path of ['link', 'dangling'])
      assert.match(await refusal('write_file', { path, text: 'mine' }), /is not replaced/);
    assert.match(await refusal('write_file', { path: 'fixed', text: 'new' }), /read-only/);
    assert.match(await refusal('write_file', { path: 'none/a', text: 'new' }), /does not exist/);
    assert.equal(fs.readFileSync(join(root, 'fixed'), 'utf8'), 'old');
    assert.deepEqual(fs.readdirSync(outside), ['secret']);
    assert.ok(fs.lstatSync(join(root, 'link')).isSymbolicLink());
  });
});
