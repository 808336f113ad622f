/**
 * What the protocol of docs/spool.md demands of the disk for a job, and nothing else: one process, one job at a time, with
 * calls that wait. It looks at nothing, competes with nobody for a job, and repairs nothing.
 */
import fs from 'node:fs';
import { join } from 'node:path';

export interface BareJob {
  readonly name: string;
  readonly prompt: string;
}

/** Texts of the length that ours have. */
const OWNER = `${JSON.stringify({ hostname: 'box', boot: 'b'.repeat(36), pid: 4711, start: '1234567', namespace: 'pid:[4026531836]', nonce: 'n'.repeat(16), actor: `agent-${'a'.repeat(16)}` })}\n`;
const LINE = `${JSON.stringify({ n: 1, at: '2026-01-02T03:04:05.678Z', from: 'queued', to: 'in-progress', actor: `agent-${'a'.repeat(16)}`, attempt: 1 })}\n`;
const JOB = `${JSON.stringify({ status: 'in-progress', 'schema-version': '1.0.0', retry_count: 0, max_retries: 3, moves: 1, attempt: 1, agent: `agent-${'a'.repeat(16)}`, changed_at: '2026-01-02T03:04:05.678Z' })}\n`;
const RESULT = `${JSON.stringify({ ok: true })}\n`;

export class BareSpool {
  readonly #incoming: string;
  readonly #succeeded: string;
  readonly #work: string;
  readonly #jobs: string;
  #made = 0;

  /** The folders of a spool exist; those of the actor are made. */
  constructor(folder: string, actor: string) {
    this.#incoming = join(folder, 'incoming');
    this.#succeeded = join(folder, 'completed/succeeded');
    this.#work = join(folder, 'tmp', actor, 'work');
    this.#jobs = join(folder, 'in-progress', actor);
    for (const path of [this.#work, this.#jobs]) fs.mkdirSync(path, { recursive: true });
  }

  drop({ name, prompt }: BareJob): void {
    const made = this.#temporary();
    fs.mkdirSync(made);
    writeSynced(join(made, 'prompt.json'), prompt);
    syncFolder(made);
    fs.renameSync(made, join(this.#incoming, name));
    syncFolder(this.#work);
    syncFolder(this.#incoming);
  }

  /** Claims, begins and ends a job. */
  run(name: string): void {
    const lock = join(this.#incoming, `${name}.lock`);
    const folder = join(this.#jobs, name);
    this.#lock(lock);
    fs.renameSync(join(this.#incoming, name), folder);
    syncFolder(this.#incoming);
    syncFolder(this.#jobs);
    writeStatus(folder);
    replaceSynced(join(folder, 'result.json'), RESULT);
    writeStatus(folder);
    syncFolder(folder);
    fs.renameSync(folder, join(this.#succeeded, name));
    syncFolder(this.#jobs);
    syncFolder(this.#succeeded);
    this.#unlock(lock);
  }

  #lock(lock: string): void {
    const made = this.#temporary();
    fs.mkdirSync(made);
    fs.writeFileSync(join(made, 'owner.json'), OWNER);
    fs.renameSync(made, lock);
  }

  #unlock(lock: string): void {
    const aside = this.#temporary();
    fs.renameSync(lock, aside);
    fs.unlinkSync(join(aside, 'owner.json'));
    fs.rmdirSync(aside);
  }

  #temporary(): string {
    return join(this.#work, String(++this.#made));
  }
}

function writeStatus(folder: string): void {
  fs.appendFileSync(join(folder, 'history.jsonl'), LINE);
  replaceSynced(join(folder, 'job.json'), JOB);
}

function replaceSynced(path: string, text: string): void {
  writeSynced(`${path}.tmp`, text);
  fs.renameSync(`${path}.tmp`, path);
}

function writeSynced(path: string, text: string): void {
  const fd = fs.openSync(path, 'wx');
  fs.writeSync(fd, text);
  fs.fdatasyncSync(fd);
  fs.closeSync(fd);
}

function syncFolder(path: string): void {
  const fd = fs.openSync(path, 'r');
  fs.fsyncSync(fd);
  fs.closeSync(fd);
}
