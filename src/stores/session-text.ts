/** An archived session as the JSON text in which stores keep it, with the version of its record. */
import type { SessionRecord } from '../model/session-record.ts';
import { upcast } from '../model/upcast.ts';

export const sessionText = (record: SessionRecord): string => JSON.stringify(record);

export const readSession = (text: string): SessionRecord => upcast('session', JSON.parse(text));
