/** The program of the demo backend: reads a job's payload and writes a fixed answer word by word. */

const WORD_PAUSE_MS = 30;
const ECHOED_WORDS = 12;
const MAX_INPUT_BYTES = 64 * 1024 * 1024;

interface PayloadMessage {
  readonly content?: unknown;
}

/** The prompt, or the text of the last message. */
function promptOf(payload: unknown): string {
  const { prompt, messages } = (payload ?? {}) as { prompt?: unknown; messages?: unknown };
  if (typeof prompt === 'string') return prompt;
  const last = Array.isArray(messages) ? (messages.at(-1) as PayloadMessage | undefined)?.content : undefined;
  if (typeof last === 'string') return last;
  const parts = Array.isArray(last) ? (last as { text?: unknown }[]) : [];
  return parts.map((part) => (typeof part?.text === 'string' ? part.text : '')).join(' ');
}

function answerTo(prompt: string): string {
  const words = prompt.split(/\s+/).filter((word) => word !== '');
  const echo = words.slice(0, ECHOED_WORDS).join(' ') + (words.length > ECHOED_WORDS ? ' …' : '');
  const echoLine = echo === '' ? 'You sent no prompt.' : `You wrote: "${echo}"`;
  return [
    "This is orchd's built-in demo model. It is not an LLM: it only repeats the first words it was given.",
    echoLine,
    'For real answers: `orchd up --model FILE.gguf`, or `--upstream URL` of a server that runs already.',
  ].join('\n');
}

async function inputText(): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const bytes of process.stdin as AsyncIterable<Buffer>) {
    size += bytes.length;
    if (size > MAX_INPUT_BYTES) throw new Error('the input is too large');
    chunks.push(bytes);
  }
  return Buffer.concat(chunks).toString();
}

function payloadOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    console.error('the input is not JSON');
    // sysexits: EX_DATAERR
    process.exit(65);
  }
}

const answer = answerTo(promptOf(payloadOf(await inputText())));
for (const word of answer.match(/\S*\s?/g) ?? []) {
  process.stdout.write(word);
  await new Promise((resolve) => setTimeout(resolve, WORD_PAUSE_MS));
}
process.stdout.write('\n');
