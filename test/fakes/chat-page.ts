/**
 * A chat page as providers have it, whose answers a test steers: text that grows or is rewritten, a URL for every
 * conversation, a login form before or in the middle of an answer, and other selectors after a redesign.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What the page does next with its answer. */
export type PageStep =
  | { readonly add: string }
  | { readonly set: string }
  | { readonly login: true }
  | { readonly error: string }
  /** Goes to another page. */
  | { readonly goto: string }
  /** Blocks the page for good. */
  | { readonly spin: true }
  | { readonly end: true };

export const SELECTORS = {
  input: '#prompt',
  send: '#send',
  answer: '.answer',
  busy: '#busy',
  login: '#login',
  error: '.error',
};

interface OpenAnswer {
  readonly response: ServerResponse;
  readonly answers: string[];
}

export class ChatPage {
  /** The prompts that were sent, in their order. */
  readonly prompts: string[] = [];
  /** Without a login the page shows its form only, and looks every moment whether somebody has logged in. */
  isLoggedIn = true;
  /** The ids and classes of the elements have another prefix. */
  prefix = '';
  /** Opens a window, a dialog and a download with every answer. */
  isNoisy = false;
  #opened = 0;
  readonly #conversations: string[][] = [];
  readonly #server = createServer((request, response) => void this.#answer(request, response));
  #open: OpenAnswer | undefined;
  #wake: (() => void) | undefined;

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get url(): string {
    return `${this.origin}/new?model=large`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Settles when so many prompts were sent. */
  async sent(count: number): Promise<void> {
    while (this.prompts.length < count)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** Settles when so many pages were loaded. */
  async opened(count: number): Promise<void> {
    while (this.#opened < count)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** Steers the answer to the last prompt. */
  step(step: PageStep): void {
    const { response, answers } = this.#open as OpenAnswer;
    const last = answers.length - 1;
    if ('add' in step) answers[last] += step.add;
    if ('set' in step) answers[last] = step.set;
    response.write(`${JSON.stringify(step)}\n`);
    if ('end' in step) response.end();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '').replace(/\?.*/, '');
    if (path === '/send') return this.#send(await text(request), response);
    if (path === '/file') {
      response.writeHead(200, { 'content-disposition': 'attachment; filename=x.bin' }).end('x');
      return;
    }
    const id = /^\/c\/(\d+)$/.exec(path)?.[1];
    const answers = id === undefined ? [] : (this.#conversations[Number(id)] ?? []);
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    this.#opened++;
    this.#wake?.();
    response.end(this.isLoggedIn ? this.#page(id, answers) : LOGIN_PAGE);
  }

  #send(body: string, response: ServerResponse): void {
    const { id, prompt } = JSON.parse(body) as { id: string | null; prompt: string };
    const at = id === null ? this.#conversations.push([]) - 1 : Number(id);
    const answers = this.#conversations[at] as string[];
    answers.push('');
    response.writeHead(200, { 'content-type': 'application/x-ndjson' });
    response.write(`${JSON.stringify({ id: String(at) })}\n`);
    this.#open = { response, answers };
    this.prompts.push(prompt);
    this.#wake?.();
  }

  #page(id: string | undefined, answers: readonly string[]): string {
    const p = this.prefix;
    const shown = answers.map((answer) => `<p class="${p}answer">${answer}</p>`).join('');
    return `<!doctype html><title>Chat</title><main>${shown}</main>
      <textarea id="${p}prompt"></textarea><button id="${p}send" disabled>Send</button>
      <script>(${run})(${JSON.stringify({ p, id: id ?? null, isNoisy: this.isNoisy })})</script>`;
  }
}

const LOGIN_PAGE = `<!doctype html><title>Login</title><form id="login"><input name="user"></form>
  <script>setTimeout(() => location.reload(), 200)</script>`;

/** Runs in the page. */
const run = `async ({ p, id, isNoisy }) => {
  const main = document.querySelector('main');
  const input = document.getElementById(p + 'prompt');
  const button = document.getElementById(p + 'send');
  input.oninput = () => { button.disabled = input.value === ''; };
  const make = (tag, fields) => Object.assign(document.createElement(tag), fields);
  const steps = {
    id: (value) => { id = value; history.pushState({}, '', '/c/' + value); },
    add: (value, answer) => { answer.textContent += value; },
    set: (value, answer) => { answer.textContent = value; },
    login: () => { document.body.append(make('form', { id: 'login', textContent: 'Log in again' })); },
    error: (value) => { main.append(make('p', { className: p + 'error', textContent: value })); },
    goto: (value) => { location.href = value; },
    spin: () => { for (;;); },
    end: () => {},
  };
  button.onclick = async () => {
    const prompt = input.value;
    input.value = '';
    button.disabled = true;
    const busy = make('p', { id: p + 'busy', textContent: '…' });
    main.append(busy);
    const { body } = await fetch('/send', { method: 'POST', body: JSON.stringify({ id, prompt }) });
    const answer = make('p', { className: p + 'answer' });
    main.append(answer);
    if (isNoisy) { open('/c/0'); document.body.append(make('iframe', { src: '/file' })); alert('Rate us!'); }
    let rest = '';
    for await (const text of body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split('\\n');
      rest = lines.pop();
      for (const line of lines)
        for (const [name, value] of Object.entries(JSON.parse(line))) steps[name](value, answer);
    }
    busy.remove();
  };
}`;
