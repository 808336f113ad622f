/** Work that consumers ask for. */
import type { PlantedBug } from './catchers.ts';

export const CONSUMERS_BUGS: readonly PlantedBug[] = [
  {
    name: 'the holder of an attempt is not compared with who reports its end',
    file: 'src/core/attempts/claims.ts',
    find: 'holder?.consumer === consumerId(pool, name) && holder.fence === fence',
    replace: 'holder !== undefined || pool + name + fence === ""',
    catcher: 'longSimulation',
    says: /was answered with the result of body -1/,
  },
  {
    name: 'a claim is answered before its commit',
    file: 'src/runtime/loop.ts',
    find: '    const { clock } = this.#env;\n    this.#watermark.after(',
    replace:
      "    const { clock } = this.#env;\n    for (const [at, { event, resolve }] of batch.entries())\n      if (event.type === 'claim') resolve?.(steps.replies[at] as never);\n    this.#watermark.after(",
    catcher: 'redisClaims',
    says: /it is answered before its commit/,
  },
  {
    name: 'what a silent consumer holds is never given up',
    file: 'src/core/attempts/presence.ts',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the text of a line of code
    find: '    giveUpHeld(turn, id, `the consumer "${id}" has fallen silent`);\n',
    replace: '',
    catcher: 'longSimulation',
    says: /everything ends once faults stop/,
  },
  {
    name: 'what a consumer holds is given up for its age',
    file: 'src/core/attempts/presence.ts',
    find: '  for (const id of consumers.expired(turn.now)) {\n',
    replace:
      "  for (const [id] of consumers.entries())\n    for (const entry of [...turn.state.pulled.held(id)])\n      if (turn.now - (entry.open?.acceptedAt ?? 0) > 1000) giveUp(turn, entry, 'its entry is idle');\n  for (const id of consumers.expired(turn.now)) {\n",
    catcher: 'longSimulation',
    says: /ran once|while .* still ran|after .* had succeeded/,
  },
  {
    name: 'an entry of the inbox is acknowledged before its commit',
    file: 'src/adapters/streams/inbox.ts',
    find: '    const outcomes = place === CONTROL',
    replace:
      "    await this.#finish(place, entries, entries.map(() => 'done' as const));\n    const outcomes = place === CONTROL",
    catcher: 'redisInbox',
    says: /it is deleted before its commit/,
  },
  {
    name: 'an entry of the inbox is refused by a brain that does not lead any more',
    file: 'src/adapters/streams/inbox.ts',
    find: "  'FENCED',\n  'NO_LEADER',\n  'STORE_FAILED',\n",
    replace: '',
    catcher: 'redisInboxRefused',
    says: /it is not deleted/,
  },
  {
    name: 'an entry of a job is acknowledged before the end of the job is committed',
    file: 'src/runtime/consumers/consumers.ts',
    find: '    const answers = await this.order(',
    replace:
      "    for (const { token } of results) this.#parts.hints.closed([{ kind: 'attempt', id: token, after: { ...this.engine.state.open.get(token)?.open, state: 'ended' } } as never]);\n    const answers = await this.order(",
    catcher: 'redisConsumers',
    says: /it is deleted before its commit/,
  },
  {
    name: 'the group of a stream of jobs begins at its end',
    file: 'src/backends/stream/hint-stream.ts',
    find: "['XGROUP', 'CREATE', key, group, '0', 'MKSTREAM']",
    replace: "['XGROUP', 'CREATE', key, group, '$', 'MKSTREAM']",
    catcher: 'redisGroup',
    says: /made anew from the beginning/,
  },
  {
    name: 'the group of the inbox begins at its end',
    file: 'src/adapters/streams/inbox.ts',
    find: "key, INGEST.group, '0', 'MKSTREAM'",
    replace: "key, INGEST.group, '$', 'MKSTREAM'",
    catcher: 'redisInboxGroup',
    says: /was there before the group/,
  },
  {
    name: 'the mirror of dead jobs begins at the end',
    file: 'src/adapters/streams/dead-letters.ts',
    find: '  #isBehind = true;',
    replace: '  #isBehind = false;',
    catcher: 'redisDeadLetters',
    says: /deaths while no mirror ran come first/,
  },
];
